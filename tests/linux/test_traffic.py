# SPDX-License-Identifier: BSD-3-Clause
"""The program that sends a run's flows: every byte arrives, in time and at the right host, and nothing is left."""

import errno
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.flows import FlowTable
from ncc.core.topologies import Dumbbell
from ncc.envs.linux import traffic
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, alive, eventually

CUBIC = TrafficOptions(congestion="cubic", deadline_s=2 * PATIENCE_S)


def table(start_s: list[float], size_bytes: list[int], pairs: int = 1) -> FlowTable:
    """Flows of pair i modulo `pairs`; hosts are numbered s0, r0, s1, r1, ..."""
    n = len(start_s)
    pair = np.arange(n) % pairs
    return FlowTable(np.array(start_s), 2 * pair, 2 * pair + 1, np.array(size_bytes), np.zeros(n, np.int64))


@contextmanager
def hosts(pairs: int = 1, rate_bps: float = 400e6) -> Iterator[tuple[Any, list[Sender]]]:
    """A rack, and its hosts in the order of `table`."""
    from ncc.envs.linux.rack import Rack

    topology = Dumbbell(pairs=pairs, host_rate_bps=rate_bps, bottleneck_rate_bps=rate_bps, buffer_bytes=200_000).build()
    ids = {node.name: i for i, node in enumerate(topology.nodes)}
    with Rack(topology) as rack:
        order = [ids[f"{side}{i}"] for i in range(pairs) for side in "sr"]
        yield rack, [Sender(rack.namespace(host), rack.address(host)) for host in order]


def finish(sending: Traffic) -> None:
    def over() -> bool:
        sending.check()
        return sending.over

    assert eventually(over)


def begin_now(sending: Traffic, *rows: int) -> None:
    """Start flows whose starts are far away; the program's next flow must be among them."""
    sending.flows["start_ns"][list(rows)] = 0
    sending.snapshot()  # the program looks at the table again


@needs(*TRAFFIC)
def test_every_byte_arrives_and_the_counters_say_so() -> None:
    sizes = [1, 1459, 1460, 1461, 20_000, 65_536, 65_537, 300_000, 2_000_000] * 4
    flows = table([0.002 * i for i in range(len(sizes))], sizes, pairs=2)
    with hosts(2) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, CUBIC) as sending:
        start_ns = time.monotonic_ns() + 5_000_000
        sending.begin(start_ns)
        finish(sending)
        rows = sending.flows
        assert (rows["state"] == traffic.DONE).all()
        for column in ("handed_bytes", "received_bytes", "acked_bytes", "left_bytes"):
            assert (rows[column] == flows.size_bytes).all(), column
        packets = -(-flows.size_bytes // 1460)
        assert (rows["sent_pkts"] >= packets).all()
        assert (rows["sent_pkts"] - rows["retransmitted_pkts"] <= 1.01 * packets + 2).all()  # few short ones in between
        late_s = (rows["opened_ns"] - np.uint64(start_ns)).astype(np.int64) / 1e9 - flows.start_s
        assert (late_s >= 0).all()
        assert (rows["finish_ns"] > rows["opened_ns"]).all()
        assert (rows["min_rtt_us"] > 0).all()
        left = subprocess.run(
            ["ip", "netns", "exec", ends[0].netns, "ss", "-Htan", "state", "time-wait"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert left.stdout == ""


@needs(*TRAFFIC)
@pytest.mark.parametrize("sample_s", [0.0, 0.001], ids=["on demand", "every period"])
def test_flows_under_way_are_sampled(sample_s: float) -> None:
    flows = table([0.0], [50_000_000])
    options = replace(CUBIC, sample_s=sample_s)
    with hosts(rate_bps=50e6) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, options) as sending:
        began = time.monotonic()
        sending.begin(time.monotonic_ns())
        if sample_s:
            assert eventually(lambda: sending.flows["rtt_samples"][0] > 50)
            row = sending.flows[0].copy()
            assert row["rtt_samples"] < (time.monotonic() - began) / sample_s + 2
            assert row["rtt_sum_us"] / row["rtt_samples"] > row["min_rtt_us"] > 0
        else:
            assert eventually(lambda: sending.flows["handed_bytes"][0])
            assert sending.flows["sent_pkts"][0] == 0
            assert eventually(lambda: sent_pkts(sending) > 100)
            row = sending.flows[0]
        assert row["state"] == traffic.SENDING
        assert row["sent_pkts"] > 100
        assert 0 < row["acked_bytes"] <= row["left_bytes"] <= row["handed_bytes"] < 50_000_000


def sent_pkts(sending: Traffic) -> int:
    """Packets of the first flow, as of now."""
    sending.snapshot()
    return int(sending.flows["sent_pkts"][0])


@needs(*TRAFFIC)
def test_it_ends_by_itself_when_its_time_is_over() -> None:
    flows = table([0.0, 5.0], [500_000_000, 1000])
    options = TrafficOptions(congestion="cubic", deadline_s=0.3)
    with hosts(rate_bps=50e6) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, options) as sending:
        sending.begin(time.monotonic_ns())
        finish(sending)
        assert sending.header["over"][0] == traffic.OUT_OF_TIME
        assert sending.flows["state"].tolist() == [traffic.SENDING, traffic.WAITING]
        assert sending.flows["sent_pkts"][0] > 0
        sending.check()


@needs(*TRAFFIC)
def test_flows_of_a_host_that_leaves_stay_unfinished_and_the_others_go_on() -> None:
    flows = table([0.0, 0.0, 1e6], [5_000_000, 1_000_000, 1000], pairs=2)
    flows.src[2], flows.dst[2] = 0, 1
    with hosts(2, 20e6) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, CUBIC) as sending:
        sending.begin(time.monotonic_ns())
        assert eventually(lambda: sending.flows["received_bytes"][:2].min() > 0)
        links = subprocess.run(
            ["ip", "-n", ends[0].netns, "-o", "link"], capture_output=True, text=True, check=True
        ).stdout.split("\n")
        device = next(line.split(": ")[1].split("@")[0] for line in links if ": lo:" not in line and line)
        subprocess.run(["ip", "-n", ends[0].netns, "link", "del", device], check=True)
        begin_now(sending, 2)
        assert eventually(lambda: sending.flows["state"].tolist()[1:] == [traffic.DONE, traffic.FAILED])
        assert sending.flows["state"][0] not in (traffic.DELIVERED, traffic.DONE)
        assert sending.flows["error"][2] == errno.EADDRNOTAVAIL  # which went with the device


@needs(*TRAFFIC)
def test_what_it_cannot_do_it_says_in_a_sentence() -> None:
    flows = table([0.0], [1000])
    with hosts() as (_, ends):
        with pytest.raises(DatapathError, match=r"no congestion control called ncc_none: No such file or directory\.$"):
            Traffic(ends, flows, flows.src, flows.dst, TrafficOptions(congestion="ncc_none", deadline_s=1.0))
        gone = [Sender("ncc-nowhere", "10.0.0.1"), ends[1]]
        with pytest.raises(DatapathError, match="namespace ncc-nowhere cannot be opened"):
            Traffic(gone, flows, flows.src, flows.dst, CUBIC)
        sending = Traffic(ends, flows, flows.src, flows.dst, CUBIC)
        sending.close()
        sending.close()
        with pytest.raises(DatapathError, match="has been closed"):
            sending.check()


STARTER = """
import sys, time
from tests.linux.test_traffic import table
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
names = sys.argv[1:5]
flows = table([0.0, 0.6], [2_000_000, 2_000_000])
ends = [Sender(names[0], names[1]), Sender(names[2], names[3])]
sending = Traffic(ends, flows, flows.src, flows.dst, TrafficOptions("cubic", deadline_s=20.0))
sending.begin(time.monotonic_ns())
print(sending.pid, flush=True)
time.sleep(60)
"""


@needs(*TRAFFIC)
def test_it_ends_with_the_process_that_started_it() -> None:
    with hosts(rate_bps=50e6) as (_, ends):
        names = [part for end in ends for part in (end.netns, end.address)]
        with subprocess.Popen([sys.executable, "-c", STARTER, *names], stdout=subprocess.PIPE, text=True) as starter:
            assert starter.stdout is not None
            pid = int(starter.stdout.readline())
            starter.kill()
        assert eventually(lambda: not alive(pid))
