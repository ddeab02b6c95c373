# SPDX-License-Identifier: BSD-3-Clause
"""Growth of windows where nothing is lost: alone on a path, above any queue of the host, and after a pause."""

import numpy as np
import pytest

from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import MS, US
from ncc.core.workload import Fixed
from ncc.core.writes import Writes
from ncc.envs.packetsim import PacketsimDatapath
from tests.datapaths.runs import Simulator, fixed, flow, long_path, over_transports, run

RTT_S = 80 * MS


@over_transports("newreno", "dctcp", "cubic", "gemini", "vegas", "annulus", "rwndq", "ns3_cubic")
def test_a_window_doubles_whatever_the_host_s_queue_holds(simulator: Simulator, transport: str) -> None:
    """10 packets double until 5 MB are sent: 8.4 round trips after the handshake (RFC 5681 section 3.1)."""
    wide = {"send_buffer_bytes": 2**25, "receive_buffer_bytes": 2**25, "min_rto_s": 0.2, "initial_rto_s": 1.0}
    fct_s = []
    for small_queue_bytes in (6000, 60_000, 3_000_000):
        scenario = fixed(
            long_path(RTT_S / 2),
            flow("s0", "r0", 5_000_000),
            transport=Transport(recovery="classic", **wide),  # type: ignore[arg-type]
            nic=Nic(small_queue_bytes=small_queue_bytes),
            period_s=10 * MS,
        )
        fct_s.append(run(simulator, scenario, transport).fct_s[0])
    assert max(fct_s) < 1.02 * min(fct_s)
    assert 8.4 * RTT_S < fct_s[0] < 11 * RTT_S


@pytest.mark.parametrize(
    ("rate_bps", "rtt_s"),
    [(1e8, 60 * US), (1e8, 6 * MS), (1e9, 60 * US), (1e9, 6 * MS), (1e10, 60 * US), (1e10, 600 * US), (1e11, 60 * US)],
)
@pytest.mark.parametrize(
    ("control", "recovery"), [("vegas", "classic"), ("vegas", "modern"), ("gemini", "modern"), ("bbr", "modern")]
)
def test_a_path_is_filled_with_a_handshake_as_without(
    rate_bps: float, rtt_s: float, control: str, recovery: str
) -> None:
    """The handshake's packets are faster than full ones, most of all on slow links."""
    path = Dumbbell(
        pairs=1, host_rate_bps=rate_bps, bottleneck_rate_bps=rate_bps, delay_s=rtt_s / 6, mark_threshold_bytes=0,
        buffer_bytes=4_000_000,
    )  # fmt: skip
    size_bytes = round(max(2e6, 40 * rate_bps * rtt_s / 8))
    fct_s = []
    for handshake in (False, True):
        transport = Transport(recovery=recovery, handshake=handshake)  # type: ignore[arg-type]
        scenario = fixed(path, flow("s0", "r0", size_bytes), transport=transport, period_s=1 * MS)
        fct_s.append(run(PacketsimDatapath, scenario, control).fct_s[0])
    assert fct_s[1] < 1.05 * fct_s[0] + rtt_s
    if rate_bps < 1e11:  # there a packet per round trip is too little
        assert fct_s[1] < 1.25 * size_bytes * 8 / rate_bps + 20 * rtt_s


def test_a_small_flow_first_does_not_slow_vegas_down(simulator: Simulator) -> None:
    """On one connection, 100 bytes and then 2 MB over a slow link."""
    path = Dumbbell(pairs=1, host_rate_bps=1e8, bottleneck_rate_bps=1e8, delay_s=10 * US, mark_threshold_bytes=0)
    scenario = fixed(
        path,
        flow("s0", "r0", 100),
        flow("s0", "r0", 2_000_000, 10 * MS),
        transport=Transport(recovery="classic", connections_per_pair=1),
    )
    assert run(simulator, scenario, "vegas").fct_s[1] < 1.1 * 2_000_000 * 8 * 1538 / 1460 / 1e8


@over_transports("newreno", "dctcp", "cubic", "gemini", "vegas", "bbr", "ns3_cubic")
@pytest.mark.parametrize("recovery", ["classic", "modern"])
def test_a_pause_within_a_flow_is_one_between_flows(simulator: Simulator, transport: str, recovery: str) -> None:
    """Pieces of a flow, a second apart, take as long as flows of that size on one connection."""
    pieces, bytes_ = 4, 150_000
    path = Dumbbell(pairs=1, delay_s=1 * MS, buffer_bytes=600_000, mark_threshold_bytes=0)
    connection = Transport(recovery=recovery, connections_per_pair=1)  # type: ignore[arg-type]
    settings = {"topology": path, "duration_s": 10.0, "period_s": 10 * MS, "transport": connection}
    written = Fixed(flows=(flow("s0", "r0", pieces * bytes_),), writes=Writes(chunk_bytes=bytes_, every_s=1.0))
    apart = Fixed(flows=tuple(flow("s0", "r0", bytes_, float(i)) for i in range(pieces)))
    ends_s = [
        run(simulator, Scenario(name="pauses", workload=(("f", part),), **settings), transport).records.flows.finish_s  # type: ignore[arg-type]
        for part in (written, apart)
    ]
    assert ends_s[0][-1] == pytest.approx(ends_s[1][-1], abs=0.1 * MS)
    assert np.diff(ends_s[1]).min() > 0.9
