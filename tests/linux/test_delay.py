# SPDX-License-Identifier: BSD-3-Clause
"""The delay of a link: as configured, in both directions, at full rate, and gone with its process.

How exactly is in test_timing.py."""

import msgspec
import pytest

from ncc.core.errors import DatapathError
from ncc.core.topologies import Dumbbell
from ncc.core.topology import Topology
from ncc.envs.linux.delay import OWN_S, Delay, End
from ncc.envs.linux.namespaces import path
from ncc.envs.linux.rack import Rack
from tests.linux.rates import check_limit, counted
from tests.linux.sockets import bulk, round_trips_s
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

RATE_BPS = 100e6
WAN_S = 5e-3
BASE = Dumbbell(pairs=1, host_rate_bps=RATE_BPS, bottleneck_rate_bps=RATE_BPS, buffer_bytes=500_000)


def wan(delay_s: float) -> Topology:
    """Two hosts with that delay between their switches."""
    network = BASE.replace(mark_threshold_bytes=0).build()
    first, *others = network.links
    return msgspec.structs.replace(network, links=(first.replace(delay_s=delay_s), *others))


def ends(rack: Rack) -> tuple[int, int]:
    """The two hosts."""
    src, dst = rack.topology.hosts
    return src, dst


pytestmark = needs(*TRAFFIC)


@pytest.mark.parametrize("delay_s", [200e-6, 20e-3])
def test_no_round_trip_takes_less_than_twice_the_delay_and_one_takes_little_more(delay_s: float) -> None:
    least_s = 2 * (delay_s - OWN_S)
    with Rack(wan(delay_s)) as rack:
        assert round_trips_s(rack, *ends(rack), 10).min() > least_s
        assert eventually(lambda: round_trips_s(rack, *ends(rack), 1)[0] < least_s + 5e-3)


def test_a_flow_fills_a_delayed_link() -> None:
    network = wan(WAN_S)
    port = network.port("left->right")
    with Rack(network) as rack, bulk(rack, [ends(rack)]) as run:
        check_limit(lambda: counted(lambda: int(run.ports()["tx_bytes"][port])), RATE_BPS * 1500 / 1538)


def test_devices_that_cannot_be_made_are_named() -> None:
    nowhere = End(path("ncc-not-there"), "p0", 16)
    with pytest.raises(DatapathError, match=r"ended: delay: .*ncc-not-there: No such file or directory"):
        Delay(nowhere, nowhere, 1e-3, RATE_BPS, 1500)
