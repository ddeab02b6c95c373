# SPDX-License-Identifier: BSD-3-Clause
"""Slots of drawn scenarios: each is the racks it holds, bit for bit, from one episode into the next."""

import pickle
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.workload import Poisson
from ncc.envs.action import ActionSpec
from ncc.envs.families import Choice, Families, Family, Uniform
from ncc.envs.mixture import Mixture
from ncc.envs.observation import ObservationSpec
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec, EnvView
from ncc.envs.worker_racks import RackFactory
from ncc.harness.networks import Networks
from tests.envs.cases import FLOWS, plain, rack, spec
from tests.support.mm1 import Mm1Datapath

EPOCHS = 6
VIEW = EnvView(observation=ObservationSpec(neighbours="pooled"))
NUMBERS = EnvView(observation=VIEW.observation, action=ActionSpec(kind="log"))
HEAVY = Poisson(distribution="hadoop", load_frac=0.9, sources="hosts", destinations="remotes")


def family(varies: dict[str, Any], **settings: Any) -> Family:
    return Family(scenario=plain(rack(HEAVY)), varies=varies, **settings)


FAMILIES = Families(
    hosts_per_slot=8,
    epochs=EPOCHS,
    of={
        "racks": family(
            {
                "topology.hosts": Choice(values=(2, 4, 8)),
                "workload.traffic.load_frac": Uniform(low=0.3, high=0.9),
                "period_s": Choice(values=(1e-4, 2e-4)),
            }
        ),
        "larger": family({"topology.hosts": Choice(values=(4, 8))}, weight=3),
    },
)


class Batched(Mm1Datapath):
    """Analytic networks that can be had as a batch."""

    def __init__(self) -> None:
        super().__init__(backlogged=False)

    @classmethod
    def batch(cls, n: int, *, threads: int, first: int) -> Networks:
        return Networks(FLOWS, n, first=first)


def mixture(datapath: Any = PacketsimDatapath, families: Families = FAMILIES, **settings: Any) -> Mixture:
    settings = {"spec": spec(view=VIEW), "seed": 9, **settings}
    return Mixture(families, datapath=datapath, **settings)


def alone(slot: int, episode: int, what: EnvSpec, seed: int = 9) -> RackBatch:
    """The racks of one slot in one episode."""
    scenario = FAMILIES.draw(seed, slot, episode)
    n = 8 // scenario.n_agents
    return RackBatch(what.replace(scenario=scenario), PacketsimDatapath, seed, slot * 8, n)


def test_each_slot_is_what_its_racks_would_be_alone_into_the_next_episodes() -> None:
    slots, first, start = 3, 5, 1
    env, rng = mixture(slot=first, n_slots=slots), np.random.default_rng(0)
    obs, earned = env.reset(start), []
    assert env.episode == start
    sizes = set()
    for episode in range(start, start + 4):
        singles = [alone(first + row, episode, spec(view=VIEW)) for row in range(slots)]
        sizes |= {single.n_agents for single in singles}
        np.testing.assert_array_equal(obs, np.stack([one.reset(episode).reshape(8, -1) for one in singles]))
        for epoch in range(EPOCHS):
            actions = rng.integers(0, env.n_actions, (slots, 8))
            moved, last = env.step(actions), epoch == EPOCHS - 1
            for row, one in enumerate(singles):
                ours = one.step(actions[row].reshape(one.n_racks, -1))
                np.testing.assert_array_equal(moved.reward[row], ours.reward.reshape(-1))
                np.testing.assert_array_equal(moved.final_obs[row], ours.final_obs.reshape(8, -1))
                assert ours.truncated.all() == last
            assert (moved.truncated == last).all()
            assert not moved.terminated.any()
            assert (moved.final_obs is not moved.obs) == last, "equal where no episode ended"
            obs = moved.obs
        assert env.episode == episode + 1
        for one in singles:
            earned.append(np.mean(one.take_returns()))
            one.close()
    got = env.take_returns()
    assert len(got) == 3 * 4
    assert sorted(got) == sorted(earned)
    assert env.take_returns() == ()
    assert len(sizes) > 1, "networks of several sizes took part"
    env.close()
    env.close()


def test_equal_seeds_repeat_on_any_number_of_threads_and_from_any_episode() -> None:
    def played(**settings: Any) -> list[np.ndarray]:
        env, rng = mixture(n_slots=2, **settings), np.random.default_rng(1)
        seen = [env.reset(0)]
        for _ in range(2 * EPOCHS):
            moved = env.step(rng.integers(0, env.n_actions, (2, 8)))
            seen += [moved.obs, moved.reward]
        env.close()
        return seen

    one, other, third = played(), played(threads=2), played(seed=10)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert not np.array_equal(one[-1], third[-1])
    again = mixture(n_slots=2)
    np.testing.assert_array_equal(again.reset(2), one[-2])
    again.close()


def test_a_worker_has_slots_of_its_own_and_the_factory_travels() -> None:
    factory = RackFactory(spec(view=VIEW), PacketsimDatapath, 9, 2, families=FAMILIES)
    env = pickle.loads(pickle.dumps(factory))(3)
    assert isinstance(env, Mixture)
    assert (env.n_racks, env.n_agents, env.obs_dim) == (2, 8, 16)
    there = mixture(slot=6, n_slots=2)
    np.testing.assert_array_equal(env.reset(), there.reset())
    for each in (env, there):
        each.close()
    assert isinstance(RackFactory(spec(view=VIEW), PacketsimDatapath, 9, 2)(0), RackBatch)
    with pytest.raises(ConfigError, match=r"which mm1 does not: train on packetsim"):
        RackFactory(spec(view=VIEW), Mm1Datapath, 9, families=FAMILIES)


def test_bad_actions_name_slot_and_host_and_run_no_epoch() -> None:
    env, twin, top = mixture(slot=4, n_slots=2), mixture(slot=4, n_slots=2), np.full((2, 8), 10)
    env.reset()
    twin.reset()
    bad = top.copy()
    bad[1, 2] = 11
    for actions, message in (
        (bad, r"slot 5: action of host 2 is 11; allowed: whole numbers 0 to 10"),
        (bad - 12, r"slot 4: action of host 0 is -2; allowed"),
        (top.astype(float), r"actions must be integers"),
        (top[:, :3], r"shape \(2, 8\), got \(2, 3\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            env.step(actions)
    np.testing.assert_array_equal(env.step(top).obs, twin.step(top).obs)
    for each in (env, twin):
        each.close()


def test_nothing_runs_before_a_reset_or_after_the_end() -> None:
    env, top = mixture(), np.full((1, 8), 10)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(top)
    env.reset()
    env.close()
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(top)


class Failing(Batched):
    """Networks that fail in their third epoch."""

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        measurement = super().step(rate_limits_bps)
        if measurement.epoch == 2:
            raise DatapathError("the network caught fire")
        return measurement


def test_a_slot_that_fails_is_named_and_all_must_start_again() -> None:
    one = Families(hosts_per_slot=4, epochs=EPOCHS, of={"small": family({})})
    env, top = mixture(Failing, one, slot=7, n_slots=2), np.full((2, 4), 10)
    env.reset(3)
    env.step(top)
    with pytest.raises(DatapathError, match=r"^slot 7, family 'small', episode 3: the network caught fire$"):
        env.step(top)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(top)
    env.reset(3)
    env.step(top)
    env.close()


def test_what_cannot_be_an_environment_is_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="neighbours to pooled"):
        mixture(spec=spec())


def test_copies_play_one_draw_and_differ_by_what_they_decide_alone() -> None:
    """Three copies of two lists: equal numbers give equal racks, and one host's number changes its own network only."""
    env = mixture(spec=spec(view=NUMBERS), families=FAMILIES, n_slots=6, copies=3)
    lone = mixture(spec=spec(view=NUMBERS), families=FAMILIES, n_slots=6)
    first, alone = env.reset(1), lone.reset(1)
    numbers = np.full((6, 8), 0.2)
    other = numbers.copy()
    other[4, 0] = -1.0  # copy 1 of the second list, a host of its first network
    size = FAMILIES.draw(9, 3, 1).n_agents
    for t in range(EPOCHS):
        moved = env.step(other)
        assert moved.truncated.all() == (t == EPOCHS - 1)
        for group in (slice(0, 3), slice(3, 6)):
            same = moved.final_obs[group]
            np.testing.assert_array_equal(same[0], same[2])
        np.testing.assert_array_equal(moved.final_obs[4, size:], moved.final_obs[3, size:])
        np.testing.assert_array_equal(moved.final_obs[0], moved.final_obs[1])
    assert first.shape == alone.shape
    assert len(env.take_returns()) == 6
    numbers[2, 1] = np.nan
    with pytest.raises(ConfigError, match=r"slot 2: action of host 1 is nan; allowed: numbers$"):
        env.step(numbers)
    env.close()
    lone.close()


def test_flows_arrive_in_epochs_and_the_drain_comes_after() -> None:
    env = mixture(spec=spec(view=NUMBERS), families=FAMILIES.replace(drain_epochs=3))
    env.reset()
    over = [bool(env.step(np.ones((1, 8))).truncated[0]) for _ in range(EPOCHS + 3)]  # type: ignore[arg-type]
    assert over == [False] * (EPOCHS + 2) + [True]
    env.close()
