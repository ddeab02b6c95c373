# SPDX-License-Identifier: BSD-3-Clause
"""Packetsim at and beyond the edge of what it can do: a run that is right or one clear sentence, nothing else."""

import copy
import pickle
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FlowTable
from ncc.core.memory import memory_bytes
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.topology import Topology
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from ncc.harness.networks import networks
from tests.datapaths.runs import engine, fixed, flow, run
from tests.support.processes import eventually

PAIR = fixed(Dumbbell(pairs=1), flow("s0", "r0", 100_000))
LARGEST_PKTS = 2**32 - 2


def one(size_bytes: int = 1000, start_s: float = 0.0, dst: int = 3) -> FlowTable:
    """A flow from s0 to a node of PAIR."""
    return FlowTable(
        np.array([start_s]), np.array([2]), np.array([dst]), np.array([size_bytes]), np.zeros(1, dtype=np.int64)
    )


def started(flows: FlowTable | None = None, scenario: Scenario = PAIR, seed: int = 1) -> PacketsimDatapath:
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1) if flows is None else flows, HostStack(), seed)
    return datapath


@pytest.mark.parametrize("size_bytes", [2**53, 2**63 - 1, LARGEST_PKTS * 1460 + 1])
def test_a_flow_of_more_packets_than_can_be_counted_is_refused(size_bytes: int) -> None:
    said = (
        rf"^Scenario 'test' cannot run on packetsim: flow 0 has {size_bytes} bytes; at most {LARGEST_PKTS} packets of"
    )
    with pytest.raises(ConfigError, match=said):
        started(one(size_bytes))


@pytest.mark.parametrize("size_bytes", [2**40, LARGEST_PKTS * 1460])
def test_the_longest_flow_that_can_be_counted_runs(size_bytes: int) -> None:
    datapath = started(one(size_bytes))
    measured = [datapath.step(np.array([np.inf])) for _ in range(10)][-1]
    assert measured.throughput_bps[0] == pytest.approx(1e9 * 1500 / 1538, rel=0.02)
    left = datapath.finish().flows.sent_pkts[0]
    assert measured.queued_bytes[0] == size_bytes - 1460 * left
    assert measured.flows_finished == 0


def test_a_flow_of_the_far_future_does_not_start() -> None:
    datapath = started(one(start_s=9e9))  # 285 years: just within 64 bits of nanoseconds
    measured = [datapath.step(np.array([np.inf])) for _ in range(3)]
    assert [m.flows_started for m in measured] == [0, 0, 0]


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, 2**63, -(2**63), 2**200])
def test_any_whole_number_is_a_seed(seed: int) -> None:
    datapath = started(seed=seed)
    for _ in range(3):
        assert datapath.step(np.array([np.inf])).flows_started == 1
    assert datapath.finish().flows.finish_s[0] < 3e-3


def test_epochs_of_10_us_tell_what_one_of_1_ms_does() -> None:
    short = run(PacketsimDatapath, PAIR.replace(period_s=1e-5), max_epochs=300, until_done=False)
    long = run(PacketsimDatapath, PAIR, max_epochs=3, until_done=False)
    assert short.fct_s[0] == long.fct_s[0]
    bits = (short.column("goodput_bps").sum() * 1e-5, long.column("goodput_bps").sum() * 1e-3)
    assert bits == pytest.approx((800_000, 800_000))


@pytest.mark.parametrize(
    ("field", "value"),
    [("min_rto_s", 1e300), ("min_rto_s", 61.0), ("initial_rto_s", 1e-9), ("delayed_ack_s", 1e12), ("min_rto_s", 0.0),
     ("rtt_noise_max_s", -1e-6), ("rtt_noise_max_s", 1.5)],
)  # fmt: skip
def test_times_have_a_range(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"^Transport.{field}: Expected `float` [<>]= "):
        Transport(recovery="classic").replace(**{field: value})


@pytest.mark.parametrize("seconds", [1e-6, 60.0])
def test_timers_at_the_ends_of_their_range_work(seconds: float) -> None:
    transport = Transport(recovery="classic", min_rto_s=seconds, initial_rto_s=seconds, delayed_ack_s=seconds)
    done = run(PacketsimDatapath, PAIR.replace(transport=transport), max_epochs=100)
    assert np.isfinite(done.fct_s[0])


def test_a_queue_that_takes_weeks_to_empty_is_refused() -> None:
    topology = Dumbbell(pairs=1, bottleneck_rate_bps=1e3, buffer_bytes=2**40)
    scenario = fixed(topology, flow("s0", "r0", 1))
    with pytest.raises(ConfigError, match=r"queue of port left->right may take 1.72e\+10 s to empty, at most 1e\+06 s"):
        started(scenario=scenario)
    slow = fixed(topology.replace(buffer_bytes=10**7), flow("s0", "r0", 3000))
    datapath = started(scenario=slow)
    for _ in range(50):
        datapath.step(np.array([np.inf]))
    assert datapath._network is not None


def test_buckets_and_small_queues_of_any_size_run() -> None:
    scenario = PAIR.replace(nic=Nic(bucket_bytes=2**53, small_queue_bytes=2**53))
    assert run(PacketsimDatapath, scenario, limits=np.array([1.0])).fct_s[0] < 2e-3


def test_a_running_simulation_is_neither_pickled_nor_copied() -> None:
    datapath = started()
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(DatapathError, match="A running packetsim simulation cannot be copied or pickled: close"):
            act(datapath)
    assert datapath.step(np.array([np.inf])).epoch == 1
    datapath.close()
    again = pickle.loads(pickle.dumps(datapath))
    assert again.start(PAIR, PAIR.flows(1), HostStack(), 1).epoch == 0


def test_closing_during_a_step_of_another_thread_ends_the_run_after_it() -> None:
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 2**40), period_s=0.25)
    for _ in range(5):
        datapath = started(scenario=scenario)
        stepping = threading.Event()
        epochs: list[int] = []

        def step(
            datapath: PacketsimDatapath = datapath, epochs: list[int] = epochs, on: threading.Event = stepping
        ) -> None:
            on.set()
            epochs.append(datapath.step(np.array([np.inf])).epoch)

        thread = threading.Thread(target=step)
        thread.start()
        stepping.wait(60)
        while not datapath._stepping and thread.is_alive():
            pass
        datapath.close()
        thread.join()
        assert epochs == [1]
        with pytest.raises(DatapathError, match=r"step\(\) needs a running simulation"):
            datapath.step(np.array([np.inf]))
        assert datapath.start(scenario, scenario.flows(1), HostStack(), 1).epoch == 0
        datapath.close()


def test_another_thread_is_refused_while_a_batch_steps() -> None:
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 2**40), period_s=0.05)
    batch = networks(PacketsimDatapath, 2, threads=2)
    flows, limits = scenario.flows(1), np.full((2, 1), np.inf)
    for row in range(2):
        batch.start(row, scenario, flows, HostStack(), 1)
    refused: list[str] = []
    over = threading.Event()

    def intrude() -> None:
        while not over.is_set() and len(refused) < 2:
            try:
                if refused:
                    batch.start(0, scenario, flows, HostStack(), 1)
                else:
                    batch.step(limits)
            except DatapathError as error:
                refused.append(str(error))
            else:
                over.wait(0.002)  # the other's turn

    intruder = threading.Thread(target=intrude)
    intruder.start()

    def both_refused() -> bool:
        with suppress(DatapathError):  # the intruder may be first
            batch.step(limits)
        return len(refused) == 2

    eventually(both_refused)
    over.set()
    intruder.join()
    assert refused == [f"Cannot {call}: another thread is in step()." for call in ("step", "start")]


def test_networks_of_a_batch_have_one_shape() -> None:
    other = fixed(Dumbbell(pairs=2), flow("s0", "r0", 100_000))
    batch = PacketsimDatapath.batch(2, threads=2, first=0)
    for row in range(2):
        batch.start(row, PAIR, PAIR.flows(1), HostStack(), 1)
    said = (
        r"^Scenario 'test' cannot run in this batch: a network of \d+ hosts .* in row 1, beside one of \d+ hosts .*0\.$"
    )
    with pytest.raises(ConfigError, match=said):
        batch.start(1, other, other.flows(1), HostStack(), 1)
    measured = batch.step(np.full((2, PAIR.n_agents), np.inf))
    assert measured.throughput_bps[0].sum() > 0
    np.testing.assert_array_equal(measured.throughput_bps[0], measured.throughput_bps[1])
    batch.close()
    for row in range(2):
        batch.start(row, other, other.flows(1), HostStack(), 1)
    np.testing.assert_array_equal(batch.step(np.full((2, other.n_agents), np.inf)).epoch, [1, 1])


MILLION = """
from tests.packetsim.test_bad_input import million_flows

before_mib, after_mib, started, in_hosts = million_flows(1_000_000)
print(before_mib, after_mib, started, in_hosts)
"""


def million_flows(n: int) -> tuple[float, float, int, int]:
    """`n` flows at time 0 over a dumbbell; peak memory before and after some epochs, flows started, packets waiting."""
    scenario = fixed(Dumbbell(pairs=16, bottleneck_rate_bps=4e9), flow("s0", "r0", 1))
    network: Topology = scenario.network()
    rng = np.random.default_rng(1)
    src, dst = (rng.choice(network.group(name), n) for name in ("senders", "receivers"))
    flows = FlowTable(np.zeros(n), src, dst, np.full(n, 100_000), np.zeros(n, dtype=np.int64))
    before = memory_bytes("VmHWM") / 2**20
    datapath = started(flows, scenario)
    started_flows, waiting_pkts = 0, 0
    for _ in range(10):
        measured = datapath.step(np.full(16, np.inf))
        audit = engine(datapath).audit()
        started_flows, waiting_pkts = measured.flows_started, audit["in_hosts"]
        assert audit["sent"] == audit["arrived"] + audit["dropped"] + audit["in_hosts"] + audit["on_links"]
        assert measured.active_flows.sum() == n
    after = memory_bytes("VmHWM") / 2**20
    return before, after, started_flows, waiting_pkts


def test_a_million_flows_at_once_take_little_more_than_a_kilobyte_each() -> None:
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True, check=True)
    before_mib, after_mib, began, waiting = map(float, done.stdout.split())
    assert began == 1_000_000
    assert waiting > 900_000  # a SYN, or what follows it
    assert after_mib - before_mib < 1250
