# SPDX-License-Identifier: BSD-3-Clause
"""Checks that message transports (`baselines/transport.h`) have the network that they need."""

from ncc.baselines.registry import (
    RANKED,
    ROUTES,
    TRIMS,
    TransportNeeds,
    message_transports,
    program_needs,
    with_defaults,
)
from ncc.core.errors import ConfigError
from ncc.core.pipes import longest_rtt_s
from ncc.core.scenario import Scenario
from ncc.core.topology import MOST_CLASSES, Buffer
from ncc.harness.datapath import HostStack

SAY_BYTES = 46
"""Size of a control packet as an IP packet (NCC_TP_SAY_BYTES)."""
BLIND_PARAMS = ("blind_pkts", "expendable")
"""Parameters by which transports send data that ports drop first (Aeolus)."""
LEAST_CONTROL_PKTS_PER_S = 100
LEAST_SHAPED_BPS = 84 * 8 * LEAST_CONTROL_PKTS_PER_S
"""Least rate of a shaped queue. Rates of control packets, which are a share of it, then are never 0."""
MOST_CONTROL_PKTS = 2**23
"""Most control packets of a flow in flight: half of the numbers of a stamp (NCC_STAMP_SEQ), which go round."""


def check_transports(scenario: Scenario, stack: HostStack) -> None:
    """Raise `ConfigError` unless the scenario has what the stack's message transports need, and nothing they lack."""
    used = {name: message_transports()[name] for name in stack.transports if name in message_transports()}
    ports = [buffer for link in scenario.network().links for buffer in (link.a_buffer, link.b_buffer) if buffer]
    for name, info in used.items():
        if info.needs & TransportNeeds.SHAPED:
            _check_shaped(name, scenario, ports)
        _check_queues(name, info.needs, stack, ports)
        _check_routes(name, info.needs, scenario, ports)
        _check_hosts(name, scenario, stack)
    _check_blind(stack, ports)
    _check_entropy(scenario, stack)
    _check_beside(scenario, stack, ports)


def _check_shaped(name: str, scenario: Scenario, ports: list[Buffer]) -> None:
    fracs = [scenario.nic.shaped_frac, *(port.shaped_frac for port in ports)]
    if not all(fracs):
        raise ConfigError(
            f"Transport {name} needs a shaped queue in every port and NIC: set shaped_frac of Scenario.topology and of "
            "Scenario.nic above 0"
        )
    network, transport = scenario.network(), scenario.transport
    rates_bps = [link.rate_bps for link in network.links]
    wire_bytes = SAY_BYTES + transport.frame_overhead_bytes
    rtt_s = longest_rtt_s(network, transport.mtu_bytes + transport.frame_overhead_bytes, wire_bytes)
    pkt_bps = 8 * wire_bytes / rtt_s
    if min(fracs) * min(rates_bps) < (least_bps := max(LEAST_SHAPED_BPS, pkt_bps)):
        raise ConfigError(
            f"Transport {name} needs shaped queues of at least {least_bps:.0f} bit/s, for a control packet in each RTT "
            f"of {rtt_s:.2g} s and {LEAST_CONTROL_PKTS_PER_S} in a second: set shaped_frac of Scenario.topology and of "
            f"Scenario.nic to {least_bps / min(rates_bps):.2g} or more"
        )
    if (pkts := scenario.nic.shaped_frac * max(rates_bps) / pkt_bps) > MOST_CONTROL_PKTS:
        raise ConfigError(
            f"Transport {name} can tell {MOST_CONTROL_PKTS} control packets of a flow apart, and {pkts:.0f} fit in the "
            f"longest RTT of {rtt_s:.2g} s: lower shaped_frac of Scenario.nic, or delays of Scenario.topology"
        )


def _check_queues(name: str, needs: TransportNeeds, stack: HostStack, ports: list[Buffer]) -> None:
    if needs & TransportNeeds.TRIMS and not all(_has(port, TRIMS) for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that trim: set programs of Scenario.topology to a list with trim in it"
        )
    if needs & TransportNeeds.TRIMS and not all(port.control_first for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that send headers before data: set control_first of Scenario.topology to "
            "true"
        )
    if needs & TransportNeeds.MARKS and not all(port.red and port.mark_on_departure for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that mark by the queue that a packet leaves behind: set red of "
            "Scenario.topology, such as from 0.2 to 0.8 of the longest path's bandwidth-delay product with "
            "max_prob_frac 1, and mark_on_departure to true"
        )
    if needs & TransportNeeds.CLASSES and stack.tags != "none":
        raise ConfigError(
            f"Transport {name} gives its data classes of its own, and tags {stack.tags} would give it others: set "
            "stack.tags to none"
        )
    if needs & TransportNeeds.CLASSES and any(port.classes < MOST_CLASSES for port in ports):
        raise ConfigError(
            f"Transport {name} needs {MOST_CLASSES} classes in every port: set classes of Scenario.topology to "
            f"{MOST_CLASSES}"
        )
    if needs & TransportNeeds.RANKED and (stack.tags == "none" or not all(_has(port, RANKED) for port in ports)):
        raise ConfigError(
            f"Transport {name} needs ranks and ports that serve by them: set stack.tags, such as to remaining, and "
            "programs of Scenario.topology to a list with pfabric in it"
        )


def _check_blind(stack: HostStack, ports: list[Buffer]) -> None:
    blind = [
        (name, param)
        for name, params in stack.controllers
        if name in message_transports()
        for param, value in params
        if param in BLIND_PARAMS and value
    ]
    if not blind:
        return
    name, param = blind[0]
    if not all("selective" in {program.name for program in port.programs} for port in ports):
        raise ConfigError(
            f"Transport {name} sends data unasked ({param}), which ports must drop first: set programs of "
            f"Scenario.topology to a list with selective in it, or {param} to 0"
        )
    if any(port.control_first for port in ports):
        raise ConfigError(
            f"Transport {name} sends a PROBE behind its unasked data, which must not overtake it: set "
            f"control_first of Scenario.topology to false, or {param} to 0"
        )


def _carrying(scenario: Scenario, stack: HostStack) -> list[tuple[str, tuple[tuple[str, int], ...]]]:
    """Return the transports that have flows, and their parameters."""
    given = {part.component for part in stack.components}
    rest = {name for name, _ in scenario.workload} - given
    return list(stack.controllers[not rest :])


def _check_entropy(scenario: Scenario, stack: HostStack) -> None:
    for name, params in _carrying(scenario, stack):
        known = message_transports().get(name)
        choice = with_defaults(name, known.params, params).get("choice") if known else None
        if choice and scenario.routing != "entropy":
            raise ConfigError(
                f"Transport {name} chooses an entropy for each packet (choice), and Scenario.routing is "
                f"{scenario.routing}: set it to entropy, or choice to 0"
            )
        if choice is None and scenario.routing == "entropy":
            raise ConfigError(
                f"Scenario.routing is entropy, and transport {name} chooses no entropies, so that each flow would keep "
                f"to one path: set routing to ecmp or spray, or choose one of {', '.join(_choosing())}"
            )


def _choosing() -> list[str]:
    return sorted(
        name for name, info in message_transports().items() if "choice" in {each.name for each in info.params}
    )


def _has(port: Buffer, need: int) -> bool:
    return any(program_needs()[program.name] & need for program in port.programs)


def _check_routes(name: str, needs: TransportNeeds, scenario: Scenario, ports: list[Buffer]) -> None:
    if needs & TransportNeeds.SYMMETRIC and scenario.routing != "symmetric":
        raise ConfigError(
            f"Transport {name} needs control packets to return on the path of their data, and Scenario.routing is "
            f"{scenario.routing}: set it to symmetric"
        )
    choosing = {each.name for port in ports for each in port.programs if program_needs()[each.name] & ROUTES}
    if needs & TransportNeeds.ONE_WAY and (scenario.routing == "spray" or choosing):
        raise ConfigError(
            f"Transport {name} takes a gap for a loss, so packets of a flow must not overtake each other: set "
            "Scenario.routing to ecmp or symmetric, without a program that chooses ways"
        )


def _check_hosts(name: str, scenario: Scenario, stack: HostStack) -> None:
    transport = scenario.transport
    if transport.handshake or transport.connections_per_pair:
        raise ConfigError(
            f"Transport {name} opens no connections: set Scenario.transport.handshake to false and "
            "connections_per_pair to 0"
        )
    if scenario.nic.knows != "sizes":
        raise ConfigError(f"Transport {name} needs sizes of flows: set Scenario.nic.knows to sizes")
    if any(traffic.writes != "at_once" for _, traffic in scenario.workload):
        raise ConfigError(f"Transport {name} sends messages written as a whole: set writes of the workload to at_once")
    if scenario.has_receivers or stack.hold:
        raise ConfigError(
            f"Transport {name} lets its own receivers grant what is sent: set Scenario.neighbourhoods to uplink and "
            "stack.hold to false"
        )


def _check_beside(scenario: Scenario, stack: HostStack, ports: list[Buffer]) -> None:
    """Refuse transports that would share one queue: each is designed for a queue of its own."""
    own = [name for name, _ in _carrying(scenario, stack)]
    messages = list(dict.fromkeys(name for name in own if name in message_transports()))
    tcp = [name for name in own if name not in message_transports()]
    if len(messages) > 1:
        raise ConfigError(f"Transports {messages[0]} and {messages[1]} would share queues: leave one of them out")
    if not messages or not tcp:
        return
    needs = message_transports()[messages[0]].needs
    if needs & (TransportNeeds.TRIMS | TransportNeeds.RANKED):
        raise ConfigError(
            f"Transport {messages[0]} needs ports with short queues, and {tcp[0]}, which is TCP's, fills them: leave "
            "one of them out"
        )
    parted = needs & TransportNeeds.CLASSES or stack.tags != "none"
    if not parted or any(port.classes == 1 for port in ports):
        raise ConfigError(
            f"Transport {messages[0]} and {tcp[0]}, which is TCP's, would share one queue in each port: set "
            "Scenario.topology.classes to 2 or more and stack.tags to what parts their flows, or leave one of them out"
        )
