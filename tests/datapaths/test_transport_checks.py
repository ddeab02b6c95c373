# SPDX-License-Identifier: BSD-3-Clause
"""Networks in which a message transport cannot run: each is refused by name, with what to do."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Transport
from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program, Red
from ncc.core.units import GBPS, MS
from ncc.envs.linux.stack import check_stack
from ncc.envs.native.program_checks import check_programs
from ncc.envs.native.transport_checks import check_transports
from ncc.harness.datapath import ComponentStack, HostStack
from tests.datapaths.runs import Simulator, fixed, flow, run

TOPOLOGY = ManyToOne(senders=2, shaped_frac=0.05)
SETTINGS: dict[str, Any] = {
    "nic": Nic(shaped_frac=0.05), "routing": "symmetric", "transport": Transport(handshake=False),
}  # fmt: skip
STACK = HostStack(transport="expresspass")
TCP_TOO = STACK.replace(components=(ComponentStack(component="fixed", transport="expresspass"),), transport="dctcp")


def test_what_it_needs_is_enough() -> None:
    check_transports(fixed(TOPOLOGY, flow("s0", "receiver", 1000), **SETTINGS), STACK)
    check_transports(fixed(TOPOLOGY, flow("s0", "receiver", 1000), **SETTINGS), TCP_TOO)  # no flow has TCP


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topology": TOPOLOGY.replace(shaped_frac=0.0)}, "expresspass needs a shaped queue in every port and NIC"),
        ({"nic": Nic()}, "expresspass needs a shaped queue in every port and NIC"),
        (
            {"nic": Nic(shaped_frac=1e-9)},
            "expresspass needs shaped queues of at least 10189.* in each RTT of 6.6e-05.*to 0.01 or",
        ),
        (
            {"nic": Nic(shaped_frac=1e-4), "topology": TOPOLOGY.replace(delay_s=MS)},
            "expresspass needs shaped queues of at least 166917 bit/s, for.* RTT of 0.004 s.*to 0.00017 or",
        ),
        (
            {"topology": TOPOLOGY.replace(rate_bps=400 * GBPS, delay_s=100 * MS)},
            "expresspass can tell 8388608 control packets of a flow apart, and 119047.* fit in the longest RTT",
        ),
        ({"routing": "ecmp"}, "expresspass needs control packets to return on the path of their data.*ecmp"),
        (
            {"topology": TOPOLOGY.replace(programs=(Program(name="letflow"),))},
            "packets of a flow must not overtake each other",
        ),
        ({"transport": Transport()}, "expresspass opens no connections.*handshake to false"),
        ({"transport": Transport(handshake=False, connections_per_pair=1)}, "connections_per_pair to 0"),
        ({"nic": Nic(shaped_frac=0.05, knows="backlog")}, "expresspass needs sizes of flows.*knows to sizes"),
        ({"neighbourhoods": "receivers"}, "expresspass lets its own receivers grant.*neighbourhoods to uplink"),
    ],
)
def test_what_it_cannot_have_is_refused(changes: dict[str, Any], said: str) -> None:
    values = SETTINGS | changes
    topology = values.pop("topology", TOPOLOGY)
    with pytest.raises(ConfigError, match=said):
        check_transports(fixed(topology, flow("s0", "receiver", 1000), **values), STACK)


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (HostStack(transport="ndp"), "ndp needs ports that trim.*list with trim in it"),
        (HostStack(transport="eqds"), "eqds needs ports that trim"),
        (HostStack(transport="homa"), "homa needs 8 classes in every port"),
        (HostStack(transport="nscc"), "nscc needs ports that trim"),
        (HostStack(transport="pfabric_host", tags="remaining"), "pfabric_host needs ranks and ports that serve"),
    ],
)
def test_queues_that_it_lacks_are_named(stack: HostStack, said: str) -> None:
    scenario = fixed(TOPOLOGY.replace(classes=7), flow("s0", "receiver", 1000), **SETTINGS)
    with pytest.raises(ConfigError, match=said):
        check_transports(scenario, stack)


BLIND = HostStack(transport="expresspass", params=(("blind_pkts", 8),))
HOMA_AEOLUS = HostStack(transport="homa", params=(("expendable", 1),))
SELECTIVE = TOPOLOGY.replace(programs=(Program(name="selective"),))
TRIMS = TOPOLOGY.replace(programs=(Program(name="trim"),), control_first=True)
MARKS = TRIMS.replace(red=Red(min_bytes=3000, max_bytes=9000), mark_on_departure=True)


def beside(one: str, other: str, **settings: Any) -> HostStack:
    return HostStack(transport=one, components=(ComponentStack(component="other", transport=other),), **settings)


@pytest.mark.parametrize(
    ("topology", "stack", "said"),
    [
        (TRIMS.replace(control_first=False), HostStack(transport="ndp"), "ndp needs ports that send headers"),
        (TOPOLOGY.replace(classes=8), HostStack(transport="homa", tags="by_size"), "homa gives its.*by_size"),
        (TOPOLOGY, BLIND, "expresspass sends data unasked.*list with selective in it"),
        (TOPOLOGY.replace(classes=8), HOMA_AEOLUS, "homa sends data unasked .expendable.*or expendable to 0"),
        (SELECTIVE.replace(control_first=True), BLIND, "expresspass sends a PROBE behind its unasked data"),
        (TRIMS, beside("ndp", "eqds"), "ndp and eqds would share queues"),
        (TRIMS, HostStack(transport="nscc"), "nscc needs ports that mark by the queue.*set red of.*mark_on_departure"),
        (TRIMS, HostStack(transport="rccc", params=(("choice", 0),)), "rccc needs ports that mark by the queue"),
        (MARKS, HostStack(transport="nscc"), r"nscc chooses an entropy.*symmetric: set it to entropy, or choice to 0"),
        (MARKS, beside("nscc", "dctcp", params=(("choice", 0),)), "nscc needs ports with short queues, and dctcp"),
        (TRIMS.replace(classes=2), beside("ndp", "dctcp", tags="by_size"), "ndp needs ports with short.*dctcp"),
        (TOPOLOGY.replace(classes=2), beside("expresspass", "dctcp"), "expresspass and dctcp.*stack.tags"),
    ],
)  # fmt: skip
def test_what_it_lacks_or_what_is_beside_it_is_named(topology: ManyToOne, stack: HostStack, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_transports(fixed(topology, flow("s0", "receiver", 1000), **SETTINGS), stack)


ENTROPY = SETTINGS | {"routing": "entropy"}


@pytest.mark.parametrize("transport", ["dctcp", "ndp"])
def test_entropies_that_nobody_chooses_are_refused(transport: str) -> None:
    said = (
        f"Scenario.routing is entropy, and transport {transport} chooses no.*set routing to ecmp or spray.*nscc, rccc"
    )
    with pytest.raises(ConfigError, match=said):
        check_transports(fixed(TRIMS, flow("s0", "receiver", 1000), **ENTROPY), HostStack(transport=transport))


def test_entropies_need_no_more_than_one_path_or_a_component() -> None:
    scenario = fixed(MARKS, flow("s0", "receiver", 1000), **ENTROPY)
    check_transports(scenario, HostStack(transport="nscc", params=(("choice", 0),)))
    check_transports(scenario, HostStack(components=(ComponentStack(component="fixed", transport="nscc"),)))


def test_queues_that_it_needs_are_enough() -> None:
    ranks = TOPOLOGY.replace(programs=(Program(name="pfabric"),))
    for topology, stack in (
        (TRIMS, HostStack(transport="ndp")),
        (MARKS, HostStack(transport="nscc", params=(("choice", 0),))),
        (MARKS, HostStack(transport="rccc", params=(("choice", 0),))),
        (SELECTIVE, BLIND),
        (SELECTIVE.replace(classes=8), HOMA_AEOLUS),
        (TOPOLOGY.replace(classes=8), beside("homa", "dctcp")),
        (TOPOLOGY.replace(classes=8), HostStack(transport="homa")),
        (ranks, HostStack(transport="pfabric_host", tags="remaining")),
    ):
        check_transports(fixed(topology, flow("s0", "receiver", 1000), **SETTINGS), stack)
    with pytest.raises(ConfigError, match=r"set stack\.tags"):
        check_transports(fixed(ranks, flow("s0", "receiver", 1000), **SETTINGS), HostStack(transport="pfabric_host"))


def test_tcp_needs_a_class_of_its_own() -> None:
    stack = beside("expresspass", "dctcp")
    scenario = fixed(TOPOLOGY, flow("s0", "receiver", 1000), **SETTINGS)
    with pytest.raises(ConfigError, match="expresspass and dctcp, which is TCP's, would share one queue"):
        check_transports(scenario, stack)
    check_transports(scenario.replace(topology=TOPOLOGY.replace(classes=2)), stack.replace(tags="by_size"))


def test_pauses_beside_a_shaped_queue_are_refused() -> None:
    topology = TOPOLOGY.replace(programs=(Program(name="pfc"),), buffer_bytes=10**7, mark_threshold_bytes=0)
    with pytest.raises(ConfigError, match="pfc pauses links, and the shaped queue of a port drops"):
        check_programs(fixed(topology, flow("s0", "receiver", 1000), **SETTINGS))


def test_linux_refuses_it_by_name() -> None:
    with pytest.raises(ConfigError, match=r"expresspass replaces TCP at both ends.*simulator"):
        check_stack(STACK)
    with pytest.raises(ConfigError, match=r"nscc replaces TCP at both ends.*simulator"):
        check_stack(HostStack(transport="nscc"))


def test_a_share_is_below_the_line() -> None:
    with pytest.raises(ConfigError, match="shaped_frac"):
        TOPOLOGY.replace(shaped_frac=1.0)


@pytest.mark.parametrize("name", ["ndp", "homa"])
def test_a_message_longer_than_its_numbering_is_refused(simulator: Simulator, name: str) -> None:
    """Packets have numbers of 32 bits, of which the last two mean all packets and none."""
    size_bytes = (2**32 - 2) * 1460 + 1
    topology = TRIMS if name == "ndp" else TOPOLOGY.replace(classes=8)
    scenario = fixed(topology, flow("s0", "receiver", size_bytes), **SETTINGS)
    with pytest.raises(ConfigError, match=f"{size_bytes} bytes.* at most 429496729[34] packets"):
        run(simulator, scenario, HostStack(transport=name))
