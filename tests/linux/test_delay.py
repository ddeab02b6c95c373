# SPDX-License-Identifier: BSD-3-Clause
"""The delay of a link: as long as asked for, in both directions, at full rate, and gone with whoever asked."""

import subprocess

import msgspec
import pytest

from ncc.core.errors import DatapathError
from ncc.core.topologies import Dumbbell
from ncc.core.topology import Topology
from ncc.envs.linux.delay import Delay, End
from ncc.envs.linux.namespaces import path
from ncc.envs.linux.objects import helper
from ncc.envs.linux.rack import Rack
from tests.linux.sockets import bulk, round_trips_s, settled
from tests.support.linux import TRAFFIC, needs, wake_up_late_s

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
def test_a_round_trip_takes_twice_the_delay(delay_s: float) -> None:
    def measure() -> float:
        with Rack(wan(delay_s)) as rack:
            return float(round_trips_s(rack, *ends(rack), 60).min())

    # A round trip wakes six sleepers: either host, and the program of the link twice each way. A late wake-up is no
    # delay of the link, so it is measured on the machine as it is now.
    allowed_s = 1.02 * 2 * delay_s + 6 * max(50e-6, wake_up_late_s())
    least = settled(measure, lambda it: it < 1.02 * 2 * delay_s + 100e-6)
    assert 0.98 * 2 * delay_s < least < allowed_s


def test_a_flow_fills_a_delayed_link() -> None:
    def measure() -> float:
        with Rack(wan(WAN_S)) as rack:
            return float(bulk(rack, [ends(rack)], warm_s=1.0, for_s=1.5).goodput_bps[0])

    goodput_bps = settled(measure, lambda it: it > 0.95 * RATE_BPS * 1460 / 1538)
    assert goodput_bps > 0.9 * RATE_BPS * 1460 / 1538


def test_devices_that_cannot_be_made_are_named() -> None:
    nowhere = End(path("ncc-not-there"), "p0", 16)
    with pytest.raises(DatapathError, match=r"ended: delay: .*ncc-not-there: No such file or directory"):
        Delay(nowhere, nowhere, 1e-3, RATE_BPS, 1500)


@pytest.mark.parametrize("arguments", [[], ["1", "2", "x", *"abcdef"], ["1", "1", "1500", *"abcdef"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    ended = subprocess.run([helper("delay"), *arguments], capture_output=True, text=True, timeout=10, check=False)
    assert ended.returncode in (1, 2)
    assert ended.stderr.startswith(("usage:", "delay: "))
