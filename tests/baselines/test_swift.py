# SPDX-License-Identifier: BSD-3-Clause
"""Swift's window, worked by hand."""

import pytest

from ncc.baselines._baselines import Connection
from ncc.baselines.registry import connect

MSS = 1000


def swift(**params: int) -> Connection:
    return connect("swift", MSS, 100 * MSS, {"stretch_pct": 0, "hops": 0} | params)


def acked(cc: Connection, rtt_ns: int, now_ns: int = 0, nbytes: int = MSS) -> int:
    event = {"rtt_ns": rtt_ns, "min_rtt_ns": 10_000, "srtt_ns": rtt_ns}
    return cc.on_ack(now_ns=now_ns, delivered_bytes=nbytes, acked_bytes=nbytes, **event)[0]


def test_swift_grows_by_a_packet_per_window_below_the_target() -> None:
    cc = swift()
    for _ in range(101):
        window = acked(cc, 19_999)
    assert window == pytest.approx(101 * MSS, abs=20)


def test_swift_cuts_in_proportion_to_the_excess_once_per_rtt() -> None:
    cc = swift()
    assert acked(cc, 25_000, 10**6) == pytest.approx(100 * MSS * (1 - 0.8 * 5 / 25), abs=2)
    assert acked(cc, 25_000, 10**6 + 24_999) == pytest.approx(84 * MSS, abs=2)
    # The target of 84 packets is higher by flow scaling.
    target = 20_000 + 100_000 * (84**-0.5 - 100**-0.5) / (0.1**-0.5 - 100**-0.5)
    wanted = 84 * MSS * (1 - 0.8 * (25_000 - target) / 25_000)
    assert acked(cc, 25_000, 10**6 + 25_000) == pytest.approx(wanted, rel=1e-3)
    assert acked(cc, 10**9, 10**10) == pytest.approx(wanted / 2, rel=1e-3), "at most a half"


def test_swift_s_target_rises_with_hops() -> None:
    assert acked(swift(hops=5), 34_000) > 100 * MSS  # 20 + 5 x 3.05 us
    assert acked(swift(hops=5), 36_000) < 100 * MSS


def test_swift_s_window_below_a_packet_is_a_pace() -> None:
    cc = swift(range_ns=0)
    now = 0
    for _ in range(8):  # 100 packets to 0.39
        now += 10**7
        acked(cc, 10**7, now)
    window, _, pace = cc.out
    assert window == MSS
    assert pace == pytest.approx(MSS * 100 / 256 / 1e-2, rel=1e-2)


def test_swift_s_timeouts_in_a_row_lead_to_the_smallest_window() -> None:
    cc = swift(min_millipkts=1000)
    for n in range(1, 6):
        window = cc.on_timeout(now_ns=n * 10**9, srtt_ns=10**6)[0]
        assert window == (MSS if n == 5 else 100 * MSS >> n)


def test_swift_s_path_may_be_longer_than_its_target() -> None:
    """As printed, an RTT of 1 ms without queues halves the window at each turn."""
    event = {"delivered_bytes": MSS, "rtt_ns": 10**6, "min_rtt_ns": 10**6, "srtt_ns": 10**6}
    assert swift(stretch_pct=125).on_ack(**event)[0] > 100 * MSS
    assert swift().on_ack(**event)[0] == 50 * MSS
