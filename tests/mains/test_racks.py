# SPDX-License-Identifier: BSD-3-Clause
"""Which environment a learner gets: it depends on what the datapath can do, and what it gives does not."""

import multiprocessing
from contextlib import closing

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.core.errors import ConfigError
from ncc.envs.action import ActionSpec
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvView
from ncc.harness.networks import InProcesses, InTurn, Networks
from ncc.harness.processes import usable_cpus
from ncc.run.racks import RackFactory
from tests.envs.cases import FLOWS, spec
from tests.support.mm1 import Mm1Datapath


class Batched(Mm1Datapath):
    """Keeps how it was asked to batch."""

    asked: tuple[int, int, int] | None = None

    @classmethod
    def batch(cls, n: int, *, threads: int, first: int) -> Networks:
        cls.asked = n, threads, first
        return InTurn(FLOWS, n, first=first)


def test_racks_share_a_process_only_where_the_datapath_can_batch() -> None:
    assert isinstance(RackFactory(spec(), Mm1Datapath, 1, 1)(0), RackBatch)
    env = RackFactory(spec(), Batched, 1, 3, threads=2)(5)
    assert isinstance(env, RackBatch)
    assert Batched.asked == (3, 2, 15), "worker 5 has racks 15, 16 and 17"
    asked = RackBatch(spec(), InProcesses(Mm1Datapath), 1, 2, 2)
    with closing(RackFactory(spec(), Mm1Datapath, 1, 2)(1)) as with_processes, closing(asked):
        np.testing.assert_array_equal(with_processes.reset(), asked.reset())
        assert len(multiprocessing.active_children()) == 4


@pytest.mark.parametrize(("mode", "workers"), [("sync", 1), ("async", 2), ("async", 64)])
def test_workers_share_the_processors(mode: str, workers: int) -> None:
    learner = A3cConfig(mode=mode, workers=workers, racks=4).build()  # type: ignore[arg-type]
    factory = RackFactory.for_learner(spec(), Batched, 1, learner)
    assert factory.racks == 4
    assert factory.threads == max(1, usable_cpus() // workers)


def test_learners_choose_among_rates() -> None:
    with pytest.raises(ConfigError, match="learners need 'levels', 'shares' or 'settings'"):
        RackFactory(spec(view=EnvView(action=ActionSpec(kind="log"))), Mm1Datapath, 1)
