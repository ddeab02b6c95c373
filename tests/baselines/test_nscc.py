# SPDX-License-Identifier: BSD-3-Clause
"""NSCC's equations (Ultra Ethernet specification 1.0, section 3.6.13), by hand: one call of the header at a time.

The network has gains of 1: a BDP of 150,000 bytes and a target of 12 us, at 75 Gbit/s and an RTT of 16 us. Packets have
1000 bytes of payload and 1078 on the wire.
"""

import ctypes
import subprocess
from pathlib import Path

import pytest

import ncc.baselines
from tests.baselines.test_headers import tool

FAR_END = """
#include "transports/nscc.h"
static struct nscc_sender s;
static struct ncc_tp_flow f;
static struct ncc_tp_out o;
static ncc_u64 p[sizeof(nscc_params) / sizeof(nscc_params[0])];
void begin(ncc_u64 line_bytes_per_s, ncc_u64 rtt_ns, ncc_u32 pkts, ncc_u64 median)
{
    for (unsigned i = 0; i < sizeof(p) / sizeof(p[0]); i++)
        p[i] = nscc_params[i].def;
    p[NSCC_MEDIAN] = median;
    s = (struct nscc_sender){0}, f = (struct ncc_tp_flow){0}, o = (struct ncc_tp_out){0};
    f.now_ns = 1000000, f.line_bytes_per_s = line_bytes_per_s, f.longest_rtt_ns = rtt_ns;
    f.mtu_bytes = 1040, f.wire_bytes = 1078, f.pkts = pkts;
    nscc_start(&s, p, &f, &o);
}
void hear(ncc_u64 now_ns, ncc_u64 rtt_ns, ncc_u32 kind, ncc_u32 pkts, ncc_u32 marked)
{
    struct ncc_tp_packet k = {0};
    k.kind = kind, k.sent_ns = now_ns - rtt_ns, k.number = f.acked, k.count = kind == NCC_TP_NACK;
    k.flags = marked ? NCC_TP_CE : 0;
    f.now_ns = now_ns, f.acked += pkts, o = (struct ncc_tp_out){0};
    nscc_heard(&s, p, &f, &k, &o);
}
void set(ncc_u32 cwnd, ncc_u64 average_ns) { s.cwnd = cwnd, s.average = average_ns << 8; }
ncc_u32 cwnd(void) { return s.cwnd; }
ncc_u32 granted(void) { return o.grant.pkts; }
double average_ns(void) { return (double)s.average / 256; }
"""
ACK, NACK = 3, 4
"""Values of `enum ncc_tp_kind`."""
WIRE, START_NS, RTT_NS, TARGET_NS = 1078, 1_000_000, 16_000, 12_000
LINE = 9_375_000_000
"""Bytes/s."""


class FarEnd:
    """A receiver that says what a test wants."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._c = library
        library.average_ns.restype = ctypes.c_double
        self.now_ns = START_NS

    def begin(self, line: int = LINE, rtt_ns: int = RTT_NS, *, cwnd: int = 0, median: int = 0) -> None:
        self._c.begin(ctypes.c_uint64(line), ctypes.c_uint64(rtt_ns), 100_000, ctypes.c_uint64(median))
        self.now_ns = START_NS
        if cwnd:
            self.set(cwnd)

    def set(self, cwnd: int, average_ns: int = 0) -> None:
        self._c.set(cwnd, ctypes.c_uint64(average_ns))

    def hears(self, delay_ns: int, *, after_ns: int = 1, pkts: int = 1, kind: int = ACK, marked: bool = False) -> int:
        """The change of the window by a word that comes `after_ns` after the last one."""
        before, self.now_ns = self._c.cwnd(), self.now_ns + after_ns
        rtt_ns = RTT_NS + delay_ns
        self._c.hear(ctypes.c_uint64(self.now_ns), ctypes.c_uint64(rtt_ns), kind, pkts, marked)
        return int(self._c.cwnd() - before)

    cwnd = property(lambda self: self._c.cwnd())
    granted = property(lambda self: self._c.granted())
    average_ns = property(lambda self: self._c.average_ns())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder, include = tmp_path_factory.mktemp("nscc"), Path(ncc.baselines.__file__).parent
    (folder / "far_end.c").write_text(FAR_END)
    command = [tool("gcc"), "-std=c11", "-shared", "-fPIC", f"-I{include}", "far_end.c", "-o", "far_end.so"]
    subprocess.run(command, check=True, cwd=folder)
    return ctypes.CDLL(str(folder / "far_end.so"))


@pytest.fixture
def end(library: ctypes.CDLL) -> FarEnd:
    return FarEnd(library)


def test_the_first_window_is_the_largest(end: FarEnd) -> None:
    """3.6.13.4: 1.5 BDP, of which whole packets leave."""
    end.begin()
    assert end.cwnd == 225_000
    assert end.granted == 225_000 // WIRE


def test_the_largest_window_follows_the_base_rtt(end: FarEnd) -> None:
    """3.6.13.3 and .6: a sample of 12 us is the base RTT from now on, and 1.5 x 9.375 GB/s x 12 us the most."""
    end.begin()
    end.hears(-4000)
    assert end.cwnd == 168_750


def test_a_window_permits_what_is_not_in_flight(end: FarEnd) -> None:
    end.begin(cwnd=50_000)
    end.hears(0, pkts=99_980)  # the last 20 of 100,000 have left, and are not there
    assert end.granted == (end.cwnd - 20 * WIRE) // WIRE


def test_it_grows_by_what_the_delay_leaves_to_the_target(end: FarEnd) -> None:
    """Proportional increase: alpha = 4 MTU / target; 9 packets are the first beyond 8, when the sum is applied."""
    end.begin(cwnd=100_000)
    assert [end.hears(6000) for _ in range(8)] == [0] * 8
    assert end.hears(6000) == int(9 * 4 * 1000 / TARGET_NS * WIRE * (TARGET_NS - 6000) / 100_000)


def test_it_grows_by_fi_where_nothing_is_marked_above_the_target(end: FarEnd) -> None:
    """Fair increase: fi = 5 MTU for each byte."""
    end.begin(cwnd=100_000)
    changes = [end.hears(15_000) for _ in range(9)]
    assert changes == [0] * 8 + [9 * 5 * 1000 * WIRE // 100_000]


def test_gains_scale_with_the_bdp(end: FarEnd) -> None:
    """Twice the line: a BDP of 300,000, so that fi, alpha and eta are twice as large."""
    end.begin(2 * LINE, cwnd=100_000)
    assert sum(end.hears(15_000) for _ in range(9)) == 9 * 5 * 2000 * WIRE // 100_000
    end.begin(2 * LINE, cwnd=100_000)
    assert sum(end.hears(6000) for _ in range(9)) == int(9 * 4 * 2000 / TARGET_NS * WIRE * 6000 / 100_000)
    end.begin(2 * LINE, cwnd=100_000)
    assert end.hears(6000, after_ns=RTT_NS + 1, marked=True) == 300


def test_a_mark_below_the_target_changes_no_window(end: FarEnd) -> None:
    end.begin(cwnd=100_000)
    assert [end.hears(6000, marked=True) for _ in range(20)] == [0] * 20


def test_eta_comes_once_in_a_base_rtt(end: FarEnd) -> None:
    """0.15 MTU, for flows that are too small for the rest."""
    end.begin(cwnd=10_000)
    changes = [end.hears(6000, after_ns=RTT_NS // 4, marked=True) for _ in range(15)]
    assert sum(changes) == 150 * (15 * RTT_NS // 4 // (RTT_NS + RTT_NS // 4))
    assert set(changes) == {0, 150}


def test_the_average_is_of_80_samples(end: FarEnd) -> None:
    """An unmarked sample above the target counts as a quarter of the base RTT, a trimmed packet as a base RTT."""
    end.begin(cwnd=100_000)
    end.set(100_000, 8000)
    end.hears(6000)
    assert end.average_ns == pytest.approx(8000 + (6000 - 8000) / 80, abs=0.02)
    end.set(100_000, 8000)
    end.hears(30_000)
    assert end.average_ns == pytest.approx(8000 + (4000 - 8000) / 80, abs=0.02)
    end.set(100_000, 8000)
    end.hears(30_000, kind=NACK, pkts=0)
    assert end.average_ns == pytest.approx(8000 + (16_000 - 8000) / 80, abs=0.02)


@pytest.mark.parametrize(("average_ns", "factor"), [(15_000, 1 - 0.8 * 3 / 15), (24_000, 1 - 0.8 / 2), (96_000, 0.5)])
def test_a_marked_delay_cuts_by_the_average(end: FarEnd, average_ns: int, factor: float) -> None:
    """Multiplicative decrease: 1 - gamma (avg - target) / avg, gamma = 0.8, and at least a half."""
    end.begin()
    end.set(200_000, average_ns)
    end.hears(average_ns, marked=True)
    assert end.cwnd == pytest.approx(200_000 * factor, abs=10)


def test_the_window_is_cut_once_in_a_base_rtt_and_not_while_the_average_is_low(end: FarEnd) -> None:
    end.begin()
    end.set(200_000, 24_000)
    changes = [end.hears(24_000, after_ns=3000, marked=True) for _ in range(7)]
    assert [change < -40_000 for change in changes] == [True, False, False, False, False, False, True]
    end.begin(cwnd=200_000)
    assert end.hears(24_000, marked=True) == 0


def test_it_grows_fast_when_a_window_had_no_delay(end: FarEnd) -> None:
    """Fast increase: a quarter of the bytes, once more than a window has come within 1 us of the base RTT."""
    end.begin(cwnd=20 * WIRE)
    slow = [end.hears(900) for _ in range(20)]
    window = end.cwnd
    assert sum(slow) < 20 * WIRE / 4
    fast = [end.hears(900) for _ in range(30)]
    assert fast[-20:] == [WIRE // 4] * 20
    assert end.cwnd > window
    assert end.hears(1000) < WIRE // 4  # it ends at the first delay


def test_a_trimmed_packet_takes_its_own_from_the_window(end: FarEnd) -> None:
    end.begin(cwnd=100_000)
    assert end.hears(30_000, kind=NACK, pkts=0) == -WIRE


def test_quick_adapt_takes_what_has_arrived(end: FarEnd) -> None:
    """3.6.13.8: 28 us after the period began, with a trim in it, and less arrived than an eighth of 225,000."""
    end.begin()
    end.hears(30_000, marked=True)  # a period begins
    end.hears(30_000, kind=NACK, pkts=0)
    for _ in range(10):
        end.hears(10_000)
    assert end.hears(10_000, after_ns=28_001) < 0
    assert end.cwnd == 11 * WIRE
    assert [end.hears(30_000, marked=True) for _ in range(10)] == [0] * 10  # of packets in flight then


@pytest.mark.parametrize(("trimmed", "pkts"), [(True, 27), (False, 10)])
def test_quick_adapt_needs_a_trim_and_a_loss_of_throughput(end: FarEnd, trimmed: bool, pkts: int) -> None:
    """27 packets of 1078 bytes are more than 28,125."""
    end.begin()
    end.hears(30_000, marked=True)
    if trimmed:
        end.hears(30_000, kind=NACK, pkts=0)
    for _ in range(pkts - 1):
        end.hears(10_000)
    assert end.hears(10_000, after_ns=28_001) >= 0


def test_a_delay_of_four_targets_adapts_without_a_trim(end: FarEnd) -> None:
    end.begin()
    end.hears(10_000, marked=True)
    end.hears(48_001, after_ns=28_001, marked=True)
    assert end.cwnd == WIRE  # of one packet


@pytest.mark.parametrize(("window", "delays", "median"), [(4, (0, 9000), 4500), (8, (0, 9000, 3000, 6000), 4500)])
def test_mnscc_grows_by_the_median(end: FarEnd, window: int, delays: tuple[int, ...], median: int) -> None:
    """The last half window's delays, four at most: the increase of the last ACK is that of their median."""

    def pending(delay_ns: int) -> float:
        return 4 * 1000 / TARGET_NS * WIRE * (TARGET_NS - delay_ns)

    end.begin(cwnd=window * WIRE, median=1)
    for delay_ns in delays[:-1]:
        end.hears(delay_ns + 2000, marked=True)  # without growth
    assert end.hears(delays[-1] + 2000, after_ns=RTT_NS + 1) == pytest.approx(
        pending(median + 2000) / (window * WIRE) + 150, abs=2
    )
