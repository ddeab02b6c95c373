# SPDX-License-Identifier: BSD-3-Clause
"""What the Linux datapath survives, and what it says: a late or dead agent, a dead program, a host that leaves."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy
from ncc.controllers import load_controller
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.envs.linux import machine, traffic
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from tests.linux.patience import exclusively
from tests.linux.runs import LEFT_LONG, LONG, PAIR, SETTINGS, UNLIMITED, scenario, start, throughput, until_done
from tests.linux.test_traffic import alive
from tests.support.linux import TRAFFIC, needs

Record = Callable[[str, object], None]
"""Pytest's `record_property`; `--junitxml` shows what is "measured"."""


@needs(*TRAFFIC)
def test_missed_periods_are_skipped_and_counted() -> None:
    datapath = LinuxDatapath(SETTINGS.replace(missed_frac=0.1))
    try:
        start(datapath, LONG)
        before = datapath.step(np.array([20e6, 20e6]))
        time.sleep(0.03)
        after = datapath.step(np.array([20e6, 20e6]))
        assert after.epoch - before.epoch >= 30
        assert after.time_s == pytest.approx(after.epoch * 0.001)
        datapath.finish()
        assert datapath.facts["missed_periods"] >= 29
        assert "periods had no decision" in datapath.fallbacks[0]
    finally:
        datapath.close()


@needs(*TRAFFIC)
def test_a_busy_machine_is_refused_or_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "busy_frac", lambda: 0.9)
    strict, mild = (LinuxDatapath(SETTINGS.replace(busy=busy)) for busy in ("refuse", "label"))
    with pytest.raises(DatapathError, match=r"This machine is busy: 90% of its cores are in use, at most 25% may be"):
        start(strict, PAIR)
    try:
        start(mild, PAIR)
        mild.step(UNLIMITED)
        mild.finish()
        assert mild.facts["busy"] is True
    finally:
        mild.close()


@needs(*TRAFFIC)
def test_a_dead_traffic_program_ends_the_run_in_a_sentence(datapath: LinuxDatapath, record_property: Record) -> None:
    start(datapath, LONG)
    datapath.step(UNLIMITED)
    assert datapath._run is not None
    os.kill(datapath._run._traffic.pid, signal.SIGKILL)
    with pytest.raises(
        DatapathError, match=r"traffic program ended before its flows did: killed by signal 9\."
    ) as said:
        throughput(datapath, UNLIMITED, 1.0)
    record_property("measured", f"the run ends: {said.value}")


@needs(*TRAFFIC, "ip")
def test_a_host_that_leaves_is_a_problem_of_the_run(record_property: Record) -> None:
    class Leaving(LinuxDatapath):
        """Host s0 loses its line in period 50."""

        def step(self, rate_limits_bps: FloatArray) -> Measurement:
            now = super().step(rate_limits_bps)
            assert self._run is not None
            if now.epoch >= 50 and not getattr(self, "gone", False):
                self.gone = True
                host = self._run.topology.agent_hosts[0]
                name = self._run._rack.namespace(host)
                subprocess.run(["ip", "-n", name, "link", "set", f"p{self._port(host)}", "down"], check=True)
            return now

        def _port(self, host: int) -> int:
            assert self._run is not None
            return next(
                2 * i + (link.b == host) for i, link in enumerate(self._run.topology.links) if host in (link.a, link.b)
            )

    what = scenario(("s0", 3_000_000, 0.0), ("s1", 1_000_000, 0.0), drain_s=1.0)
    datapath = Leaving(SETTINGS)
    try:
        start(datapath, what)
        datapath.close()
        run = run_once(datapath, what, load_controller("dctcp"), Unlimited(), 1, flow_seed=1)
    finally:
        datapath.close()
    assert np.isnan(run.records.flows.finish_s[0])
    assert np.isfinite(run.records.flows.finish_s[1])
    assert not run.valid
    assert "1 of 2 flows were not delivered" in run.problems[0]
    assert "s0 to receiver" in run.problems[0]
    record_property(
        "measured",
        f"the other host's flow ended after {run.records.flows.finish_s[1]:.2f} s; the run is "
        f"invalid: {run.problems[0]}",
    )


@needs(*TRAFFIC)
def test_what_a_run_starts_is_not_ahead_of_everything_and_its_thread_is_as_before() -> None:
    policies: list[int] = []

    def look() -> None:
        policies.append(os.sched_getscheduler(0))

    def run() -> None:
        """As a thread of its own, whose scheduling somebody else gives back."""
        realtime.enter()
        cores.enter()
        mine.append(threading.get_native_id())
        policies.append(os.sched_getscheduler(0))
        cores_of.append(os.sched_getaffinity(0))
        made = threading.Thread(target=look)
        made.start()
        made.join()
        done = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"],
            capture_output=True,
            text=True,
            check=True,
        )
        policies.append(int(done.stdout))
        entered.set()
        left.wait(10)

    before = os.sched_getaffinity(0)
    realtime, cores = machine.Realtime(), machine.Cores((min(before),))
    mine: list[int] = []
    cores_of: list[set[int]] = []
    entered, left = threading.Event(), threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    assert entered.wait(10)
    try:
        assert policies == [os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.SCHED_OTHER, os.SCHED_OTHER]
        assert cores_of == [{min(before)}]
        realtime.leave()
        cores.leave()
        assert os.sched_getscheduler(mine[0]) == os.SCHED_OTHER
        assert os.sched_getaffinity(mine[0]) == before
        assert os.sched_getaffinity(0) == before
    finally:
        left.set()
        thread.join()
    realtime.leave()
    cores.leave()


def decide(datapath: LinuxDatapath, limits: FloatArray) -> None:
    """What an agent does until it is killed."""
    while True:
        datapath.step(limits)


@needs(*TRAFFIC)
def test_without_its_agent_flows_fall_back_and_another_takes_over(record_property: Record) -> None:
    datapath = LinuxDatapath(SETTINGS.replace(scheduling="other", cores="shared", heartbeat_timeout_s=0.05))
    limits = np.array([10e6, 10e6])
    try:
        start(datapath, LONG)
        assert datapath._run is not None
        datapath.step(limits)
        agent = multiprocessing.get_context("fork").Process(target=decide, args=(datapath, limits))
        agent.start()
        time.sleep(0.6)
        sent = [int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max())]
        time.sleep(0.5)
        sent.append(int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max()))
        assert (sent[1] - sent[0]) * 8 / 0.5 == pytest.approx(20e6, rel=0.2)
        assert agent.pid is not None
        os.kill(agent.pid, signal.SIGKILL)
        agent.join()
        time.sleep(0.3)
        sent.append(int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max()))
        time.sleep(0.5)
        sent.append(int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max()))
        assert (sent[3] - sent[2]) * 8 / 0.5 > 70e6  # no cap is left behind
        fallbacks = datapath._run._senders.counters()["fallbacks"]
        assert fallbacks >= 3  # each connection
        throughput(datapath, limits, 0.4)  # the next agent
        again = throughput(datapath, limits, 0.6)
        assert again == pytest.approx(limits, rel=0.15)
        record_property(
            "measured",
            f"two hosts limited to 10 Mbit/s each sent {(sent[1] - sent[0]) * 16e-6:.1f} Mbit/s in all; from 0.3 s "
            f"after the kill {(sent[3] - sent[2]) * 16e-6:.1f} of a line of 100; {fallbacks} fallbacks of 3 "
            f"connections; under the next agent {again.sum() / 1e6:.1f}",
        )
        datapath.finish()
        assert any("fell back" in said for said in datapath.fallbacks)
    finally:
        datapath.close()


@needs(*TRAFFIC)
def test_a_policy_that_answers_nan_is_refused_and_leaves_no_limit(
    datapath: LinuxDatapath, record_property: Record
) -> None:
    """Its network says so, and if it did not the datapath would; then nobody decides, and connections fall back."""
    weights = np.ones((3, 4), np.float32)
    with pytest.raises(ConfigError, match="weights that are not finite"):
        MlpPolicy([(weights * np.float32(np.nan), weights[:, 0])])
    with pytest.raises(ConfigError, match="got NaN or infinity"):
        MlpPolicy([(weights, weights[:, 0])]).act(np.full((2, 4), np.nan, np.float32), None)
    start(datapath, LONG)
    limits = np.array([10e6, 10e6])
    throughput(datapath, limits, 0.3)
    limited = throughput(datapath, limits, 0.3).sum()
    with pytest.raises(ConfigError, match=r"rate_limits_bps of host s1 .* got nan") as said:
        datapath.step(np.array([10e6, np.nan]))
    assert datapath._run is not None
    time.sleep(0.3)
    sent = [int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max())]
    time.sleep(0.5)
    sent.append(int(np.asarray(datapath._run._rack.switch.sample()["tx_bytes"]).max()))
    alone_bps = (sent[1] - sent[0]) * 8 / 0.5
    assert limited == pytest.approx(20e6, rel=0.2)
    assert alone_bps > 70e6
    assert datapath._run._senders.counters()["fallbacks"] >= 3
    record_property(
        "measured",
        f"{limited / 1e6:.1f} Mbit/s under limits of 20 in all; refused ({said.value}); from 0.3 s later "
        f"{alone_bps / 1e6:.1f} of a line of 100",
    )


OUTLIVED = """
import sys, time
import numpy as np
from tests.linux import runs
from ncc.envs.linux.datapath import LinuxDatapath
datapath = LinuxDatapath(runs.SETTINGS.replace(outlive=True, longest_s=30.0))
runs.start(datapath, getattr(runs, sys.argv[2]))
limits = np.array([float(sys.argv[1])] * 2)
for _ in range(200):
    datapath.step(limits)
print(datapath._run._traffic.pid, flush=True)
while True:
    datapath.step(limits)
"""


@contextmanager
def killed(limit_bps: float, what: str = "LEFT") -> Iterator[tuple[int, Any]]:
    """A run of that scenario of `tests.linux.runs` whose process was killed after a while.

    Its traffic program, and the file of its table.
    """
    from ncc.envs.linux.rack import sweep

    with exclusively():  # nobody has the machine now
        pass
    run = subprocess.Popen([sys.executable, "-c", OUTLIVED, str(limit_bps), what], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        table = next(p for p in Path(f"/proc/{pid}/fd").iterdir() if "ncc-traffic" in str(p.readlink()))
        with table.open("rb") as file:
            run.kill()
            run.wait()
            run.stdout.close()
            yield pid, file
    finally:
        run.kill()
        sweep()


@needs(*TRAFFIC)
def test_flows_finish_when_everything_else_is_killed(record_property: Record) -> None:
    with killed(5e6) as (pid, file):
        until = time.monotonic() + 10
        while alive(pid) and time.monotonic() < until:
            time.sleep(0.05)
        rows = np.frombuffer(file.read()[-3 * traffic.FLOW.itemsize :], traffic.FLOW)
    # At 5 Mbit/s the long ones would have taken 2.4 s each, and the last began when nobody was left.
    assert rows["state"].tolist() == [traffic.DONE] * 3
    took_s = (int(rows["finish_ns"].max()) - int(rows["opened_ns"].min())) / 1e9
    assert took_s < 2.0
    record_property(
        "measured", f"all 3 flows delivered {took_s:.2f} s after the first began; under the limit 2.4 s or more"
    )


@needs(*TRAFFIC)
def test_another_process_takes_over_what_a_killed_one_left(record_property: Record) -> None:
    datapath, flows = LinuxDatapath(SETTINGS), LEFT_LONG.flows(1)
    limits = np.array([8e6, 4e6])
    with killed(1e6, "LEFT_LONG"):
        began = datapath.take_over(LEFT_LONG, flows, HostStack())
        try:
            assert began.time_s >= 0.2
            assert began.flows_started >= 2
            assert (began.goodput_bps > 0).all()
            throughput(datapath, limits, 0.3)  # silence had lifted the limits: let queues drain
            sent = throughput(datapath, limits, 0.5)
            assert sent == pytest.approx(limits, rel=0.2)
            record_property(
                "measured",
                f"limited to 8 and 4 Mbit/s by the process that took over at {began.time_s:.2f} s, hosts sent "
                f"{sent[0] / 1e6:.2f} and {sent[1] / 1e6:.2f}; all 3 flows were delivered",
            )
            epochs, records = until_done(datapath, LEFT_LONG)
            assert np.isfinite(records.flows.finish_s).all()
            assert (records.flows.sent_pkts >= -(-flows.size_bytes // 1460)).all()
            assert records.ports.tx_bytes.max() > flows.size_bytes.sum()
            assert epochs[-1].flows_finished == 3
        finally:
            datapath.close()
    with pytest.raises(DatapathError, match="No run on linux was left that sends these flows"):
        datapath.take_over(LEFT_LONG, flows, HostStack())


STARTED = """
from ncc.core.errors import ConfigError, DatapathError
from tests.linux.runs import PAIR, SETTINGS, start
from ncc.envs.linux.datapath import LinuxDatapath
datapath = LinuxDatapath(SETTINGS)
try:
    start(datapath, PAIR)
except DatapathError as error:
    print(error)
finally:
    datapath.close()
"""


@needs(*TRAFFIC)
@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        (
            "-all",
            "No run on linux is possible here: CAP_BPF: it is needed to load programs, which takes root (sudo).\n",
        ),
        ("-net_admin", "No run on linux is possible here: CAP_NET_ADMIN: it is needed to set up devices"),
        (
            "-sys_nice",
            "SCHED_FIFO is refused (it takes CAP_SYS_NICE, and a control group that allows it): set datapath.l",
        ),
    ],
)
def test_without_privileges_it_says_which_in_a_sentence(dropped: str, said: str) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("linux: setpriv is not installed (package util-linux)")
    with exclusively():  # nobody has the machine now
        pass
    command = ["setpriv", f"--bounding-set={dropped}", "--inh-caps=-all", sys.executable, "-c", STARTED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(said)
    assert len(done.stdout.splitlines()) == 1
