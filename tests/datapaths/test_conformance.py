# SPDX-License-Identifier: BSD-3-Clause
"""Every simulator keeps the contract of ncc.harness.datapath."""

import os
import subprocess
import sys
import threading
from dataclasses import fields
from typing import Any, cast

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.extras import load_extension
from ncc.core.flows import FloatArray, check_columns
from ncc.core.measurement import Measurement
from ncc.core.memory import memory_bytes
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne
from ncc.core.workload import Incast
from ncc.envs.native.base import NativeDatapath
from ncc.envs.native.extension import Network
from ncc.harness.datapath import Datapath, HostStack
from tests.datapaths.runs import MSS, Simulator, engine, fixed, flow, over_transports, run, same_records
from tests.support.measurements import check_measurement
from tests.support.processes import eventually

PAIR = fixed(Dumbbell(pairs=2), flow("s0", "r0", 200_000), flow("s1", "r1", 50_000, 0.001))
UNLIMITED = np.full(2, np.inf)


def test_is_a_datapath(datapath: NativeDatapath) -> None:
    assert isinstance(datapath, Datapath)
    assert {"dctcp", "newreno"} <= set(datapath.transports())
    assert not [name for name in datapath.transports() if name.startswith("test")]


def test_import_does_not_load_the_extension(simulator: Simulator) -> None:
    code = f"import sys, {simulator.__module__}; assert {simulator.module!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_measurements_and_records_have_the_documented_shapes(simulator: Simulator) -> None:
    done = run(simulator, PAIR)
    check_columns(done.records.flows)
    check_columns(done.records.ports)
    assert len(done.records.flows.finish_s) == 2
    assert len(done.records.ports.tx_pkts) == 2 * len(PAIR.network().links)
    assert [m.epoch for m in done.epochs] == list(range(len(done.epochs)))
    assert done.epochs[-1].time_s == pytest.approx(done.epochs[-1].epoch * PAIR.period_s, abs=1e-12)
    for measurement in done.epochs:
        check_measurement(measurement, n_agents=2)


def test_start_has_sent_nothing(datapath: NativeDatapath) -> None:
    first = datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    assert (first.time_s, first.epoch, first.flows_started) == (0, 0, 0)
    # Base RTT: a full packet and its ACK over three 1 Gbps links of 10 us, 38 bytes of framing each.
    base_rtt_s = 3 * (2 * 10e-6 + (1538 + 78) * 8e-9)
    assert first.rtt_s == pytest.approx([base_rtt_s] * 2, abs=2e-9)
    assert not first.throughput_bps.any()
    assert np.isinf(first.rate_limit_bps).all()


@over_transports("dctcp", "newreno", "ns3::TcpBbr")
def test_equal_seeds_give_bit_equal_runs(simulator: Simulator, transport: str) -> None:
    topology = LeafSpine(leaves=2, spines=2, hosts_per_leaf=3, buffer_bytes=60_000)
    traffic = Incast(events_per_s=500, fan_in=5, bytes_per_server=40_000, sources="hosts", destinations="hosts")
    scenario = Scenario(name="incast", topology=topology, workload=(("incast", traffic),), duration_s=0.01)
    assert len(scenario.flows(7)) > 10
    one, two = run(simulator, scenario, transport, seed=7), run(simulator, scenario, transport, seed=7)
    assert same_records(one.records, two.records)
    for a, b in zip(one.epochs, two.epochs, strict=True):
        assert all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Measurement))


def test_equal_cost_paths_are_all_used_and_flows_keep_to_one(simulator: Simulator) -> None:
    topology = LeafSpine(leaves=2, spines=4, hosts_per_leaf=1)
    done = run(simulator, fixed(topology, *(flow("h0_0", "h1_0", 20 * MSS, i * 1e-5) for i in range(40))))
    network = topology.build()
    up = [network.port(f"leaf0->spine{i}") for i in range(4)]
    assert (done.records.ports.tx_pkts[up] > 0).all()
    assert done.records.flows.retransmitted_pkts.sum() == 0


def test_close_twice_restart_and_out_of_order_calls(datapath: NativeDatapath) -> None:
    with pytest.raises(DatapathError, match=r"step\(\).*start\(\)"):
        datapath.step(UNLIMITED)
    with pytest.raises(DatapathError, match=r"finish\(\).*start\(\)"):
        datapath.finish()
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    datapath.step(UNLIMITED)
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)  # ends the run before it
    assert datapath.step(UNLIMITED).epoch == 1
    datapath.close()
    datapath.close()
    with pytest.raises(DatapathError):
        datapath.step(UNLIMITED)
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ({"transport": "dtcp"}, r"'dtcp'.*Did you mean 'dctcp'.*newreno"),
        ({"params": (("gain", 3),)}, r"parameter of dctcp 'gain'; known: .*g_shift"),
        ({"params": (("g_shift", 11),)}, r"g_shift of dctcp must be a whole number from 1 to 10 .* got 11"),
        ({"params": (("g_shift", 4), ("g_shift", 4))}, "g_shift of dctcp is given 2 times: give it once"),
        ({"order": "srtp"}, r"flow order 'srtp'.*srpt"),
        ({"order": "upsilon", "order_params": (("omega", 1),)}, r"parameter of flow order upsilon.*'omega'"),
        ({"order": "upsilon", "order_params": (("omega_milli", 10_001),)}, "must be .* from 0 to 10000 .* got 10001"),
        ({"order": "fifo", "order_params": (("kappa", 3),)}, "parameter of flow order fifo"),
        ({"order": "srpt", "order_params": (("kappa", 1), ("kappa", 2))}, "kappa of flow order srpt is given 2 times"),
        ({"front": "wide"}, r"front end 'wide'.*fits"),
        ({"front": "fits", "front_params": (("ahead_permille", 1001),)}, "must be .* from 0 to 1000 .* got 1001"),
    ],
)
def test_stacks_that_cannot_be_are_refused(datapath: NativeDatapath, stack: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        datapath.start(PAIR, PAIR.flows(1), HostStack(**stack), 1)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (np.full(3, 1e9), r"shape \(2,\)"),
        (np.full((2, 1), 1e9), r"shape \(2,\)"),
        (np.array([1e9, np.nan]), r"host s1 .*nan"),
        (np.array([0.0, 1e9]), r"host s0 .*0\.0"),
        (np.array([1e9, -5.0]), r"host s1 .*-5"),
        (np.array([1e9, -np.inf]), r"host s1 .*-inf"),
    ],
)
def test_bad_limits_are_refused_and_the_run_goes_on(datapath: NativeDatapath, limits: np.ndarray, message: str) -> None:
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    with pytest.raises(ConfigError, match=message):
        datapath.step(limits)
    assert datapath.step(UNLIMITED).epoch == 1


def test_a_thousand_resets_leak_neither_memory_nor_descriptors(datapath: NativeDatapath) -> None:
    def held() -> tuple[int, int]:
        """Memory in bytes, and open descriptors."""
        files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path.iterdir opens one itself
        return memory_bytes("VmRSS"), files

    flows, finish, before = PAIR.flows(1), set(), (0, 0)
    for i in range(1000):
        datapath.start(PAIR, flows, HostStack(), 1)
        for _ in range(4):
            datapath.step(UNLIMITED)
        finish.add(datapath.finish().flows.finish_s.tobytes())
        if i == 200:
            before = held()
    assert len(finish) == 1
    assert held()[0] - before[0] < 2**22
    assert held()[1] <= before[1]


def test_flow_table_faults_are_named(datapath: NativeDatapath) -> None:
    flows = PAIR.flows(1)
    bad = type(flows)(flows.start_s, flows.src, flows.src, flows.size_bytes, flows.traffic)
    with pytest.raises(ConfigError, match="flow 0 goes from a host to itself, and only a graph"):
        datapath.start(PAIR, bad, HostStack(), 1)
    bad = type(flows)(flows.start_s, flows.src, flows.dst, flows.size_bytes * 0, flows.traffic)
    with pytest.raises(ConfigError, match="flow 0 needs a size of at least 1 byte"):
        datapath.start(PAIR, bad, HostStack(), 1)


@pytest.mark.parametrize(
    ("name", "value"), [("send_buffer_bytes", 2999), ("receive_buffer_bytes", 2**30), ("initial_window_pkts", 2**30)]
)
def test_what_cannot_be_counted_is_refused(datapath: NativeDatapath, name: str, value: int) -> None:
    transport = Transport(recovery="classic").replace(**{name: value})
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 1), transport=transport)
    with pytest.raises(
        ConfigError, match=rf"transport.{name} must be from \d+ to \d+ on {datapath.title}, got {value}"
    ):
        datapath.start(scenario, scenario.flows(1), HostStack(), 1)


def test_a_missing_extension_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, datapath: NativeDatapath) -> None:
    load_extension.cache_clear()
    monkeypatch.setitem(sys.modules, datapath.module, None)
    with pytest.raises(DatapathError, match="make build"):
        datapath.transports()
    monkeypatch.undo()
    assert "dctcp" in datapath.transports()


def test_stepping_lets_other_threads_run(datapath: NativeDatapath) -> None:
    """A watcher gets many turns in one of the calls, of 20 000 packets each. Else it would get two at most."""
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 2**40), period_s=0.25)
    datapath.start(scenario, scenario.flows(1), HostStack(), 1)
    stop, turns = threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.0002):
            turns[-1] += datapath._stepping

    def call() -> bool:
        turns.append(0)
        datapath.step(np.array([np.inf]))
        return turns[-1] > 4

    watcher = threading.Thread(target=watch)
    watcher.start()
    seen = eventually(call)
    stop.set()
    watcher.join()
    assert seen, turns


class Held:
    """A network whose next step waits to be let go."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.entered, self.go = threading.Event(), threading.Event()

    def step(self, limits_bps: FloatArray) -> None:
        self.entered.set()
        assert self.go.wait(60)
        self._network.step(limits_bps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def test_another_thread_is_refused_during_a_step(datapath: NativeDatapath) -> None:
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    held = Held(engine(datapath))
    datapath._network = cast(Network, held)
    refused: list[str] = []

    def intrude() -> None:
        held.entered.wait(60)
        for call in (datapath.finish, lambda: datapath.step(UNLIMITED)):
            try:
                call()
            except DatapathError as error:
                refused.append(str(error))
        held.go.set()

    intruder = threading.Thread(target=intrude)
    intruder.start()
    assert datapath.step(UNLIMITED).epoch == 1
    intruder.join()
    assert ["thread" in message for message in refused] == [True, True]
    assert datapath.step(UNLIMITED).epoch == 2


def test_networks_whose_routes_would_fill_the_memory_are_refused(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = fixed(ManyToOne(senders=8200), flow("s0", "receiver", 1))
    with pytest.raises(ConfigError, match=r"at most 67108864 nodes x hosts on .*512 MiB.*, got 8202 x 8201"):
        simulator().start(scenario, scenario.flows(1), HostStack(), 1)
    small = fixed(ManyToOne(senders=3), flow("s0", "receiver", 1))  # 5 nodes, 4 of them hosts
    monkeypatch.setattr("ncc.envs.native.spec.MAX_ROUTES", 20)
    simulator.spec_of(small, small.flows(1), HostStack(), 1)
    monkeypatch.setattr("ncc.envs.native.spec.MAX_ROUTES", 19)
    with pytest.raises(ConfigError, match=r"got 5 x 4 = 20"):
        simulator.spec_of(small, small.flows(1), HostStack(), 1)
