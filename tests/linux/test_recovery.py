# SPDX-License-Identifier: BSD-3-Clause
"""Modern recovery against the kernel's: the same script of losses, marks and delays, packet by packet."""

import numpy as np
import pytest

from ncc.core.scenario import Nic, Transport
from ncc.envs.linux.stack import jiffy_s
from tests.datapaths.runs import fixed, flow, long_path, sent_packets
from tests.linux.scripted import MSS, Script, Trace, kernel_traces
from tests.support.linux import TRAFFIC, needs

ONE_WAY_S = 0.05
LATE_S, LATE_FRAC = 0.016, 0.01
"""Time by which a step may differ, and share of the time since the first: timers round up to jiffies, and the path, in
Python, is late by half a millisecond each way. A reordering window has 25 ms."""
AT_LEAST_FRAC = 0.95
"""Share of steps that agree, over all scripts."""
EACH_AT_LEAST_FRAC = 0.8

SCRIPTS = {
    **{f"packet {k} of 30 lost": Script(30, drop=(k,)) for k in (1, 2, 5, 10, 11, 20, 28, 29, 30)},
    **{f"packet {k} of 100 lost": Script(100, drop=(k,)) for k in (3, 15, 40, 70)},
    "last 2 lost": Script(30, drop=(29, 30)),
    "last 3 lost": Script(30, drop=(28, 29, 30)),
    "last 5 lost": Script(30, drop=tuple(range(26, 31))),
    "first window lost": Script(30, drop=tuple(range(1, 11))),
    "second window lost": Script(30, drop=tuple(range(11, 31))),
    "5 in a row lost": Script(100, drop=tuple(range(31, 36))),
    "every other of 20 lost": Script(100, drop=tuple(range(31, 51, 2))),
    "a repair lost": Script(100, drop=(15, 41)),
    "the only packet lost": Script(1, drop=(1,)),
    "the last of 2 lost": Script(2, drop=(2,)),
    "the first of 3 lost": Script(3, drop=(1,)),
    "the first of 3 and a short one lost": Script(4, drop=(1,), short_bytes=100),
    "packet 27 of 30 and a short one lost": Script(30, drop=(27,), short_bytes=100),
    **{f"packet 31 late by {ms} ms": Script(100, delay_s={31: ms * 1e-3}) for ms in (5, 15, 40, 80, 150)},
    **{f"3 packets late by {ms} ms": Script(150, delay_s=dict.fromkeys((31, 71, 111), ms * 1e-3)) for ms in (15, 80)},
    "packet 28 of 30 late by 80 ms": Script(30, delay_s={28: 0.08}),
    **{f"packet {k} marked": Script(150, mark=(k,)) for k in (5, 35, 60)},
    "40 packets marked": Script(150, mark=tuple(range(20, 60))),
    "the first 40 packets marked": Script(150, mark=tuple(range(1, 41))),
    "one marked, one lost": Script(150, drop=(45,), mark=(35,)),
    "a round late by 0.5 s": Script(100, delay_s=dict.fromkeys(range(31, 71), 0.5)),
    "a round and its probe late by 0.3 s": Script(200, delay_s=dict.fromkeys(range(31, 72), 0.3)),
    "a round without more data late by 0.5 s": Script(30, delay_s=dict.fromkeys(range(11, 31), 0.5)),
}
"""Scripts by name. Together they make the kernel repair by RACK, by a probe and by timeouts, and undo."""


def simulated(script: Script) -> Trace:
    """Packets that packetsim sends by a script."""
    scenario = fixed(
        long_path(ONE_WAY_S),
        flow("s0", "r0", script.packets * MSS - script.short_bytes),
        transport=Transport(
            recovery="modern", delayed_ack_pkts=1, min_rto_s=0.2, initial_rto_s=1.0, timer_tick_s=jiffy_s()
        ),
        nic=Nic(small_queue_bytes=10_000_000),
    )
    rows = sent_packets(scenario, "newreno", drop=script.drop, mark=script.mark, delay_s=script.delay_s)
    return Trace([time_s for time_s, _ in rows], [number for _, number in rows])


def agreeing(one: Trace, other: Trace, *, timed: bool) -> int:
    """Number of steps that both take in the same order, and, if `timed`, at nearly the same times."""
    longest = np.zeros((len(one.number) + 1, len(other.number) + 1), int)
    numbers, times_s = np.array(other.number), np.array(other.time_s)
    for i, (number, time_s) in enumerate(zip(one.number, one.time_s, strict=True)):
        near = np.abs(times_s - time_s) < LATE_S + LATE_FRAC * time_s
        same = (numbers == number) & (near if timed else True)
        for j in range(len(other.number)):
            longest[i + 1, j + 1] = longest[i, j] + 1 if same[j] else max(longest[i, j + 1], longest[i + 1, j])
    return int(longest[-1, -1])


def check_agreement(*, timed: bool) -> None:
    ours = {name: simulated(script) for name, script in SCRIPTS.items()}
    theirs = kernel_traces(list(SCRIPTS.values()), control="reno", one_way_s=ONE_WAY_S)
    missed = {}
    for (name, own), trace in zip(ours.items(), theirs, strict=True):
        steps = max(len(trace.number), len(own.number))
        missed[name] = steps - agreeing(trace, own, timed=timed)
        assert missed[name] <= (1 - EACH_AT_LEAST_FRAC) * len(own.number), name
    steps = sum(len(trace.number) for trace in ours.values())
    assert sum(missed.values()) <= (1 - AT_LEAST_FRAC) * steps, f"of {steps} steps: {missed}"


@needs(*TRAFFIC)
def test_the_kernel_sends_the_same_packets_in_the_same_order() -> None:
    check_agreement(timed=False)


@pytest.mark.timing
@needs(*TRAFFIC)
def test_the_kernel_sends_them_at_the_same_times() -> None:
    """Times of packets: to 16 ms and a hundredth of the time since the first."""
    check_agreement(timed=True)
