# SPDX-License-Identifier: BSD-3-Clause
"""packetsim keeps nothing outside its simulations: any number of them, on any thread, in a forked process too."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Incast
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack, Records
from tests.datapaths.runs import run, same_records

INCAST = Scenario(
    name="incast",
    topology=ManyToOne(senders=8, buffer_bytes=40_000),
    workload=(
        (
            "incast",
            Incast(events_per_s=500, fan_in=8, bytes_per_server=30_000, sources="senders", destinations="receiver"),
        ),
    ),
    duration_s=0.02,
)
EPOCHS = 25
UNLIMITED = np.full(8, np.inf)


def started(seed: int) -> PacketsimDatapath:
    datapath = PacketsimDatapath()
    datapath.start(INCAST, INCAST.flows(seed), HostStack(), seed)
    return datapath


def alone(seed: int) -> Records:
    return run(PacketsimDatapath, INCAST, seed=seed, max_epochs=EPOCHS, until_done=False).records


def test_threads_step_simulations_of_their_own_at_once() -> None:
    def whole(seed: int) -> Records:
        datapath = started(seed)
        for _ in range(EPOCHS):
            datapath.step(UNLIMITED)
        return datapath.finish()

    with ThreadPoolExecutor(4) as pool:
        for seed, records in enumerate(pool.map(whole, range(8))):
            assert same_records(records, alone(seed))


def _go_on(datapath: PacketsimDatapath, queue: Any) -> None:
    for _ in range(EPOCHS - 5):
        datapath.step(UNLIMITED)
    queue.put(datapath.finish())
    datapath.close()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_copy_goes_on_and_closes_by_itself() -> None:
    datapath = started(2)
    for _ in range(5):
        datapath.step(UNLIMITED)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_go_on, args=(datapath, queue))
    child.start()
    copied = queue.get(timeout=600)
    child.join(60)
    assert child.exitcode == 0
    for _ in range(EPOCHS - 5):
        datapath.step(UNLIMITED)
    assert same_records(copied, datapath.finish())
    assert same_records(copied, alone(2))
