# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.seeding import derive_seed
from ncc.envs.rack import RackBatch
from ncc.envs.racks import Racks
from ncc.harness.batch import Transition
from ncc.harness.datapath import HostStack
from tests.envs.cases import FLOWS, listed, poisson, rack, spec
from tests.support.mm1 import Mm1Datapath

TOP = np.full((1, 4), 10)


def play(env: RackBatch, epochs: int, seed: int = 0) -> list[Transition]:
    rng = np.random.default_rng(seed)
    return [env.step(rng.integers(0, env.n_actions, (1, env.n_agents))) for _ in range(epochs)]


def same(a: list[Transition], b: list[Transition]) -> bool:
    return all(
        np.array_equal(getattr(x, name), getattr(y, name))
        for x, y in zip(a, b, strict=True)
        for name in ("obs", "reward", "terminated", "truncated", "final_obs")
    )


def test_an_episode_is_truncated_after_the_scenarios_duration_and_goes_on() -> None:
    env = RackBatch(spec(rack(poisson(), periods=5)), FLOWS, seed=1)
    first = env.reset()
    ended = [bool(env.step(TOP).truncated[0]) for _ in range(12)]
    assert ended == [False] * 4 + [True] + [False] * 4 + [True] + [False] * 2
    assert env.episode == 2
    assert first.shape == (1, 4, 17)


def test_final_observation_is_the_old_episodes_and_obs_the_next_ones() -> None:
    env = RackBatch(spec(rack(periods=3)), Mm1Datapath, seed=1)
    first = env.reset()
    steps = [env.step(np.full((1, 4), 2)) for _ in range(3)]
    assert np.array_equal(steps[0].obs, steps[0].final_obs)
    assert np.array_equal(steps[2].obs, first)
    assert np.array_equal(steps[2].final_obs, steps[1].obs), "backlogged hosts look the same every epoch"


def test_a_finite_list_terminates_when_the_last_flow_is_delivered() -> None:
    # 250 kB at 1 Gbit/s take two epochs, so those that arrive at 3.5 ms are gone at 5 ms.
    env = RackBatch(spec(rack(listed((0.0, "h0", 250_000), (3.5e-3, "h1", 250_000)), periods=20)), FLOWS, seed=1)
    env.reset()
    flags = []
    for _ in range(5):
        t = env.step(TOP)
        flags.append((bool(t.terminated[0]), bool(t.truncated[0])))
    assert flags == [(False, False)] * 4 + [(True, False)]


def test_delivery_in_the_last_epoch_is_termination_and_not_truncation() -> None:
    env = RackBatch(spec(rack(listed((0.0, "h0", 250_000)), periods=2)), FLOWS, seed=1)
    env.reset()
    env.step(TOP)
    t = env.step(TOP)
    assert (bool(t.terminated[0]), bool(t.truncated[0])) == (True, False)


def test_a_random_process_never_terminates() -> None:
    env = RackBatch(spec(rack(poisson(1e-9), periods=3)), FLOWS, seed=1)
    env.reset()
    steps = [env.step(TOP) for _ in range(3)]
    assert not any(t.terminated[0] for t in steps)
    assert steps[-1].truncated[0]


def test_period_that_does_not_divide_the_duration() -> None:
    scenario = rack(period_s=3e-4).replace(duration_s=1e-3)
    env = RackBatch(spec(scenario), FLOWS, seed=1)
    env.reset()
    assert [bool(env.step(TOP).truncated[0]) for _ in range(3)] == [False, False, True]  # 0.9 ms is nearest to 1 ms


def test_reset_at_an_episode_is_the_same_as_getting_there() -> None:
    there, jumped = (RackBatch(spec(rack(periods=4)), FLOWS, seed=3) for _ in range(2))
    there.reset()
    for _ in range(8):
        there.step(TOP)
    jumped.reset(episode=2)
    assert there.episode == jumped.episode == 2
    assert same(play(there, 9), play(jumped, 9))


class Recorder(Mm1Datapath):
    """Keeps what it was started with."""

    def __init__(self) -> None:
        super().__init__(backlogged=False)
        self.starts: list[tuple[Any, ...]] = []

    def start(self, *args: Any) -> Any:
        self.starts.append(args)
        return super().start(*args)


def test_flows_come_from_purpose_seed_rack_and_episode() -> None:
    scenario, network = rack(), Recorder()
    RackBatch(spec(scenario, purpose="train"), lambda: network, seed=7, rack=3).reset(5)
    seed = derive_seed(7, "train", 3, 5)
    _, flows, stack, own = network.starts[0]
    expected = scenario.flows(seed)
    np.testing.assert_array_equal(flows.start_s, expected.start_s)
    np.testing.assert_array_equal(flows.size_bytes, expected.size_bytes)
    assert (stack, own) == (HostStack(), derive_seed(seed, "datapath"))
    other = spec(scenario, purpose="evaluate").episode_seed(7, 3, 5)
    assert other != seed


def test_returns_are_the_mean_reward_per_host_and_epoch() -> None:
    env = RackBatch(spec(rack(periods=4)), FLOWS, seed=1)
    env.reset()
    rewards = [t.reward.mean() for t in play(env, 9)]
    got = env.take_returns()
    assert got == pytest.approx([np.mean(rewards[:4]), np.mean(rewards[4:8])], rel=1e-6)
    assert env.take_returns() == ()


def test_use_out_of_order() -> None:
    env = RackBatch(spec(), FLOWS, seed=1)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(TOP)
    core, limits = Racks(spec(rack(periods=1)), FLOWS), np.full((1, 4), np.inf)
    core.begin(0, 1)
    assert core.advance(limits).truncated
    with pytest.raises(DatapathError, match="no episode is running"):
        core.advance(limits)
