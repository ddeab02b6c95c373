# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.core.scenario import Scenario
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


def test_final_observation_is_the_old_episodes_and_obs_the_next_ones() -> None:
    env = RackBatch(spec(rack(periods=3)), Mm1Datapath, seed=1)
    first = env.reset()
    steps = [env.step(np.full((1, 4), 2)) for _ in range(3)]
    assert np.array_equal(steps[0].obs, steps[0].final_obs)
    assert np.array_equal(steps[2].obs, first)
    assert np.array_equal(steps[2].final_obs, steps[1].obs), "backlogged hosts look the same every epoch"


EARLY = listed((0.0, "h0", 250_000), (3.5e-3, "h1", 250_000))
"""Flows that take two periods each at 1 Gbit/s: all are delivered at 5 ms."""


@pytest.mark.parametrize(
    ("scenario", "periods", "terminated"),
    [
        (rack(EARLY, periods=20), 5, True),
        (rack(listed((0.0, "h0", 250_000)), periods=2), 2, True),  # in the last period: termination, not truncation
        (rack(poisson(1e-9), periods=3), 3, False),  # random arrivals never terminate
        (rack(period_s=3e-4).replace(duration_s=1e-3), 3, False),  # 0.9 ms is nearest to 1 ms
    ],
)
def test_an_episode_ends_with_the_last_delivery_of_a_list_or_when_its_time_is_up(
    scenario: Scenario, periods: int, terminated: bool
) -> None:
    env = RackBatch(spec(scenario), FLOWS, seed=1)
    env.reset()
    steps = [env.step(TOP) for _ in range(periods)]
    assert [bool(t.terminated[0]) for t in steps] == [False] * (periods - 1) + [terminated]
    assert [bool(t.truncated[0]) for t in steps] == [False] * (periods - 1) + [not terminated]


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
