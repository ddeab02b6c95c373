# SPDX-License-Identifier: BSD-3-Clause
"""The Linux datapath survives a late or dead agent and a dead program, and says so."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray
from ncc.envs.linux import machine
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.run import CHECK_PERIODS
from tests.linux.patience import exclusively
from tests.linux.rates import Count, check_limit, counted, exceeds
from tests.linux.runs import LONG, PAIR, SETTINGS, UNLIMITED, start
from tests.support.linux import TRAFFIC, needs


@needs(*TRAFFIC)
def test_missed_periods_are_skipped_and_counted() -> None:
    with closing(LinuxDatapath(SETTINGS.replace(missed_frac=0.1, queues=True))) as datapath:
        start(datapath, LONG)
        before = datapath.step(np.array([20e6, 20e6]))
        time.sleep(0.03)
        after = datapath.step(np.array([20e6, 20e6]))
        assert after.epoch - before.epoch >= 30
        assert after.time_s == pytest.approx(after.epoch * 0.001)
        datapath.finish()
        assert datapath.facts["missed_periods"] >= 29
        assert "periods had no decision" in datapath.fallbacks[0]


@needs(*TRAFFIC)
def test_a_busy_machine_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "busy_frac", lambda: 0.9)
    with closing(LinuxDatapath(SETTINGS)) as datapath:
        start(datapath, PAIR)
        datapath.step(UNLIMITED)
        datapath.finish()
        assert datapath.facts["busy"] is True


@needs(*TRAFFIC)
def test_a_dead_traffic_program_ends_the_run_in_a_sentence(datapath: LinuxDatapath) -> None:
    start(datapath, LONG)
    datapath.step(UNLIMITED)
    assert datapath._run is not None
    os.kill(datapath._run._traffic.pid, signal.SIGKILL)
    with pytest.raises(DatapathError, match=r"traffic program ended before its flows did: killed by signal 9\."):
        all(datapath.step(UNLIMITED) for _ in range(2 * CHECK_PERIODS))


@needs(*TRAFFIC)
def test_what_a_run_starts_is_not_ahead_of_everything_and_its_thread_is_as_before() -> None:
    """A thread is bound and put first, starts others, and somebody else gives back what it had."""

    def run() -> list[object]:
        machine.go_first(undo)
        machine.stay_on((min(before),), undo)
        with ThreadPoolExecutor(1) as made:
            inherited = made.submit(os.sched_getscheduler, 0).result()
        asked = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
        started = int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
        return [threading.get_native_id(), os.sched_getscheduler(0), inherited, started, os.sched_getaffinity(0)]

    before = os.sched_getaffinity(0)
    undo = ExitStack()
    with ThreadPoolExecutor(1) as thread:
        number, *found = thread.submit(run).result()
        assert found == [os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.SCHED_OTHER, os.SCHED_OTHER, {min(before)}]
        undo.close()
        assert isinstance(number, int)
        assert os.sched_getscheduler(number) == os.SCHED_OTHER
        assert os.sched_getaffinity(number) == os.sched_getaffinity(0) == before
    undo.close()


def decide(datapath: LinuxDatapath, limits: FloatArray) -> None:
    """Decide as an agent does, until the process is killed."""
    while True:
        datapath.step(limits)


@needs(*TRAFFIC)
def test_without_its_agent_flows_fall_back_and_another_takes_over() -> None:
    settings = SETTINGS.replace(scheduling="other", heartbeat_timeout_s=1.0, queues=True)
    limits = np.array([10e6, 10e6])
    with closing(LinuxDatapath(settings)) as datapath:
        start(datapath, LONG)
        assert datapath._run is not None
        rack, counters = datapath._run._rack, datapath._run._queues.counters  # type: ignore[union-attr]
        port = rack.topology.port("s0->tor")

        def count() -> Count:
            return counted(lambda: int(rack.switch.sample()["tx_bytes"][port]))

        datapath.step(limits)
        agent = multiprocessing.get_context("fork").Process(target=decide, args=(datapath, limits))
        agent.start()
        check_limit(count, limits[0])
        assert counters()["silent_pkts"] == datapath._run._senders.counters()["fallbacks"] == 0
        assert agent.pid is not None
        os.kill(agent.pid, signal.SIGKILL)
        agent.join()
        assert exceeds(count, 2 * limits[0]), "a limit is left behind"
        assert counters()["silent_pkts"] > 0
        assert datapath._run._senders.counters()["fallbacks"] >= 3  # each connection
        datapath.step(limits)  # the next agent
        check_limit(lambda: (datapath.step(limits), count())[1], limits[0], window_s=0.01)
        datapath.finish()
        assert any("packets left without a limit or order" in said for said in datapath.fallbacks)


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
            "No run on linux is possible here: CAP_BPF: it is needed to load programs: run as root (sudo).\n",
        ),
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
