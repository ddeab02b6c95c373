# SPDX-License-Identifier: BSD-3-Clause
"""Which environment a learner gets: it depends on what the datapath can do, and what it gives does not."""

import multiprocessing
from contextlib import closing

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.core.errors import ConfigError
from ncc.envs.action import ActionSpec
from ncc.envs.families import Families, Family
from ncc.envs.observation import ObservationSpec
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.pairs import Paired, Pairs
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvView
from ncc.envs.worker_racks import RackFactory
from ncc.harness.networks import InProcesses, Networks
from ncc.harness.workers import usable_cpus
from tests.envs.cases import FLOWS, rack, spec
from tests.support.mm1 import Mm1Datapath


class Batched(Mm1Datapath):
    """Keeps how it was asked to batch."""

    asked: tuple[int, int, int] | None = None

    @classmethod
    def batch(cls, n: int, *, threads: int, first: int) -> Networks:
        cls.asked = n, threads, first
        return Networks(FLOWS, n, first=first)


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


def test_learners_get_the_racks_that_they_ask_for_and_copies_where_they_are_paired() -> None:
    view = EnvView(
        action=ActionSpec(kind="residual", formula="local"), observation=ObservationSpec(neighbours="ordered")
    )
    paired, a3c = spec(view=view.replace(pairs=Pairs())), A3cConfig(racks=6).build()
    made = RackFactory.for_learner(spec(view=view), Batched, 1, a3c)
    assert made.racks == 6
    one = Families(of={"one": Family(scenario=rack().to_dict())})
    with closing(RackFactory.for_learner(paired, PacketsimDatapath, 1, a3c, one)(1)) as env:
        assert isinstance(env, Paired)
        obs = env.reset()
        assert obs.shape[0] == 6
        np.testing.assert_array_equal(obs[::2, :, :-1], obs[1::2, :, :-1])
        np.testing.assert_array_equal(obs[::2, :, -1], -obs[1::2, :, -1])


@pytest.mark.parametrize(
    ("config", "pairs", "said"),
    [
        (A3cConfig(evolve_frac=0.5), None, "agent.evolve_frac compares mirror images whose actions are numbers"),
        (A3cConfig(evolve_frac=0.5), Pairs(paid="mean", copies=3), "set env.pairs with an even number of copies"),
    ],
)
def test_what_a_learner_cannot_learn_is_refused_before_anything_runs(
    config: A3cConfig, pairs: Pairs | None, said: str
) -> None:
    view = EnvView(
        action=ActionSpec(kind="residual", formula="local"),
        observation=ObservationSpec(neighbours="ordered"),
        pairs=pairs,
    )
    with pytest.raises(ConfigError, match=said):
        RackFactory.for_learner(spec(view=view), Batched, 1, config.replace(racks=6).build())


def test_copies_have_the_flows_of_the_first_of_them() -> None:
    three = EnvView(pairs=Pairs(paid="mean", copies=3))
    factory = RackFactory(spec(rack(periods=30), view=three), PacketsimDatapath, 1, 6)
    with closing(factory(0)) as copied, closing(RackFactory(spec(rack(periods=30)), PacketsimDatapath, 1, 6)(0)) as own:
        copied.reset()
        own.reset()
        unlimited = np.full((6, 4), copied.n_actions - 1)
        for _ in range(28):
            copied.step(unlimited)
            own.step(unlimited)
        same, each = copied.step(unlimited), own.step(unlimited)
        for first in (0, 3):
            np.testing.assert_array_equal(same.obs[first : first + 3], np.stack([each.obs[first]] * 3))
        assert (same.obs[0] != same.obs[3]).any()
