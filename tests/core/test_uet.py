# SPDX-License-Identifier: BSD-3-Clause
"""Ultra Ethernet's ports: thresholds from the bandwidth-delay product, by hand and as its simulator has them."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, FatTree, ManyToOne, Rack
from ncc.core.topology import Buffer, Program, Red
from ncc.core.units import GBPS, US
from ncc.envs.native.transport_checks import check_transports
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import fixed, flow

WIDE: dict[str, Any] = {
    "transport": Transport(handshake=False, mtu_bytes=4126, frame_overhead_bytes=24),
    "nic": Nic(bucket_bytes=8252, small_queue_bytes=8252),
}


def ports(scenario: Scenario) -> dict[str, Buffer]:
    """Buffers of the switch ports, by name."""
    network = scenario.network()
    named = ((network.port_name(port), network.port_buffer(port)) for port in range(2 * len(network.links)))
    return {name: buffer for name, buffer in named if buffer is not None}


def over_and_room(buffer: Buffer) -> tuple[int, int]:
    (program,) = buffer.programs
    assert program.name == "trim"
    params = dict(program.params)
    return params["over_bytes"], params["header_bytes"]


def star(**settings: Any) -> AnyTopology:
    return ManyToOne(senders=2, rate_bps=10 * GBPS, delay_s=5 * US, **({"uet": True} | settings))


def test_a_fabric_of_htsim_has_its_thresholds() -> None:
    """uet-htsim at its defaults: a BDP is 43 packets of 4,150 bytes; marks from 9 to 35, and 2 BDPs of headers."""
    fabric = FatTree(k=4, rate_bps=100 * GBPS, delay_s=1 * US, buffer_bytes=10**7, uet=True)
    for buffer in ports(fixed(fabric, flow("h0_0_0", "h3_0_1", 1000), **WIDE)).values():
        assert buffer.red == Red(min_bytes=9 * 4126, max_bytes=35 * 4126, max_prob_frac=1.0)
        assert over_and_room(buffer) == (43 * 4126, 86 * 4126)
        assert buffer.mark_on_departure
        assert buffer.control_first
        assert buffer.mark_threshold_bytes == 0


def test_a_port_s_thresholds_follow_its_rate() -> None:
    """The longest way of a rack is h0, tor, core, r0: 6 delays of 10 us, and 1616 bytes at 10, 40 and 40 Gbit/s.

    In these 61.94 us a line of 10 Gbit/s carries 50.3 packets of 1538 bytes, one of 40 Gbit/s 201.4.
    """
    rack = Rack(host_rate_bps=10 * GBPS, uplink_rate_bps=40 * GBPS, remote_rate_bps=40 * GBPS, delay_s=10 * US)
    scenario = fixed(rack.replace(uet=True, buffer_bytes=10**6), flow("h0", "r0", 1000))
    found = ports(scenario)
    assert over_and_room(found["tor->h0"]) == (51 * 1500, 102 * 1500)
    assert over_and_room(found["tor->core"]) == (202 * 1500, 404 * 1500)
    assert found["tor->core"].red == Red(min_bytes=41 * 1500, max_bytes=162 * 1500, max_prob_frac=1.0)


def test_other_programs_of_the_ports_stay() -> None:
    (port, *_) = ports(fixed(star(programs=(Program(name="int"),)), flow("s0", "receiver", 1000))).values()
    assert [program.name for program in port.programs] == ["int", "trim"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"buffer_bytes": 60_000}, "uet takes 3 bandwidth-delay.*10 Gbit/s has 60000 bytes: set buffer_bytes to 85500"),
        ({"red": Red(min_bytes=1, max_bytes=2)}, "uet sets thresholds.*leave red"),
        ({"programs": (Program(name="trim"),)}, "uet sets thresholds.*trim"),
        ({"shared_buffer_bytes": 10**6}, "uet sets thresholds.*shared_buffer_bytes"),
        ({"classes": 2}, "uet sets thresholds.*classes"),
    ],
)
def test_what_it_would_contradict_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fixed(star(**settings), flow("s0", "receiver", 1000))


def test_it_is_what_ultra_ethernet_s_transports_need() -> None:
    settings = {"routing": "entropy", "transport": Transport(handshake=False), "nic": Nic(small_queue_bytes=1500)}
    scenario = fixed(star(), flow("s0", "receiver", 1000), **settings)
    for name in ("nscc", "rccc"):
        check_transports(scenario, HostStack(transport=name))
