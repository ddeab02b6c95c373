# SPDX-License-Identifier: BSD-3-Clause
"""ns-3 has one clock per process: one simulation, in the process and thread that started it."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError, UnknownNameError
from ncc.core.topologies import Dumbbell
from ncc.envs.ns3 import Ns3Datapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import fixed, flow

PAIR = fixed(Dumbbell(pairs=2), flow("s0", "r0", 200_000), flow("s1", "r1", 50_000, 0.001))
UNLIMITED = np.full(2, np.inf)


@pytest.fixture
def datapath() -> Iterator[Ns3Datapath]:
    made = Ns3Datapath()
    yield made
    made.close()


def test_ns3s_own_congestion_controls_are_offered(datapath: Ns3Datapath) -> None:
    assert {"ns3::TcpDctcp", "ns3::TcpCubic", "ns3::TcpBbr"} <= set(datapath.transports())
    cubic = HostStack(transport="ns3::TcpCubic", params=(("beta", 3),))
    with pytest.raises(UnknownNameError, match=r"ns3::TcpCubic 'beta'; known: ecn"):
        datapath.start(PAIR, PAIR.flows(1), cubic, 1)


def test_only_one_simulation_lives(datapath: Ns3Datapath) -> None:
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    other = Ns3Datapath()
    with pytest.raises(DatapathError, match=r"one simulation per process.*close\(\)"):
        other.start(PAIR, PAIR.flows(1), HostStack(), 1)
    assert datapath.step(UNLIMITED).epoch == 1  # the first is none the worse
    datapath.close()
    other.start(PAIR, PAIR.flows(1), HostStack(), 1)
    other.close()


def _try_in_child(datapath: Ns3Datapath, queue: Any) -> None:
    errors = []
    calls: list[Callable[[], object]] = [
        lambda: datapath.step(UNLIMITED),
        lambda: Ns3Datapath().start(PAIR, PAIR.flows(1), HostStack(), 1),
        lambda: datapath.start(PAIR, PAIR.flows(1), HostStack(), 1),
    ]
    for call in calls:
        try:
            call()
            errors.append("")
        except DatapathError as error:
            errors.append(str(error))
    datapath.close()
    queue.put(errors)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_forked_copies_of_a_live_simulation_refuse(datapath: Ns3Datapath) -> None:
    datapath.start(PAIR, PAIR.flows(1), HostStack(), 1)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_try_in_child, args=(datapath, queue))
    child.start()
    errors = queue.get(timeout=600)
    child.join(60)
    assert child.exitcode == 0
    assert ["spawn" in error for error in errors] == [True] * 3
    assert datapath.step(UNLIMITED).epoch == 1


def test_another_thread_is_refused_and_the_run_goes_on(datapath: Ns3Datapath) -> None:
    scenario = fixed(Dumbbell(pairs=1), flow("s0", "r0", 100_000))
    datapath.start(scenario, scenario.flows(1), HostStack(), 1)
    with ThreadPoolExecutor(1) as pool, pytest.raises(DatapathError, match="thread that called start"):
        pool.submit(datapath.step, np.array([np.inf])).result()
    assert datapath.step(np.array([np.inf])).epoch == 1
