# SPDX-License-Identifier: BSD-3-Clause
import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.seeding import derive_seed
from ncc.envs.action import ActionSpec
from ncc.envs.rack import Rack, RackBatch
from ncc.envs.spec import EnvView
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


def test_shapes_and_types() -> None:
    env = RackBatch(spec(), FLOWS, seed=1)
    assert (env.n_racks, env.n_agents, env.obs_dim, env.n_actions) == (1, 4, 6 + 3 * 3 + 2, 11)
    assert env.reset().shape == (1, 4, 17)
    t = env.step(TOP)
    assert (t.obs.shape, t.reward.shape, t.terminated.shape, t.truncated.shape) == ((1, 4, 17), (1, 4), (1,), (1,))
    assert [a.dtype.name for a in (t.obs, t.reward, t.terminated)] == ["float32", "float32", "bool"]
    env.close()


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


def test_same_seed_same_trajectory_and_others_differ() -> None:
    runs = {}
    for name, seed, number in (("a", 1, 0), ("b", 1, 0), ("seed", 2, 0), ("rack", 1, 1)):
        env = RackBatch(spec(), FLOWS, seed, number)
        env.reset()
        runs[name] = play(env, 25)
    assert same(runs["a"], runs["b"])
    assert not same(runs["a"], runs["seed"])
    assert not same(runs["a"], runs["rack"])


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
    env = Rack(spec(scenario, purpose="train"), lambda: network, seed=7, rack=3)
    env.begin(5)
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


def test_a_bad_action_runs_no_epoch() -> None:
    env, twin = (RackBatch(spec(), FLOWS, seed=1) for _ in range(2))
    env.reset()
    twin.reset()
    for bad in (np.full((1, 4), 11), np.full((2, 4), 1), np.full((4,), 99), np.full((1, 4), np.nan)):
        with pytest.raises(ConfigError):
            env.step(bad)
    assert same(play(env, 5), play(twin, 5))


def test_use_out_of_order() -> None:
    env = RackBatch(spec(), FLOWS, seed=1)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(TOP)
    core = Rack(spec(rack(periods=1)), FLOWS, seed=1)
    core.begin(0)
    assert core.advance(np.full(4, np.inf)).truncated
    with pytest.raises(DatapathError, match="no episode is running"):
        core.advance(np.full(4, np.inf))


def test_close_twice_and_use_again() -> None:
    env = RackBatch(spec(), FLOWS, seed=1)
    env.close()
    env.reset()
    before = play(env, 3)
    env.close()
    env.close()
    env.reset()
    assert same(before, play(env, 3))


def test_continuous_actions_and_their_levels_are_the_same_rates() -> None:
    linear = ActionSpec(kind="linear", min_rate_frac=1e-9)
    numbers, indices = RackBatch(spec(view=EnvView(action=linear)), FLOWS, 1, 0, 2), RackBatch(spec(), FLOWS, 1, 0, 2)
    assert (numbers.n_actions, indices.n_actions) == (0, 11)
    for env in (numbers, indices):
        env.reset()
    for level in (1, 5, 10):
        given = np.full((2, 4), min(2 * 0.95 * level / 10 - 1, 1.0) if level < 10 else 1.0)
        np.testing.assert_allclose(numbers.step(given).obs, indices.step(np.full((2, 4), level)).obs, atol=1e-5)
    with pytest.raises(ConfigError, match=r"rack 1: action of host h2 is 2.0; allowed: numbers in \[-1, 1\]"):
        numbers.step(np.array([[0.0] * 4, [0.0, 0.0, 2.0, 0.0]]))


def test_unknown_transports_are_refused() -> None:
    env = RackBatch(spec(stack=HostStack(transport="carrier_pigeon")), FLOWS, seed=1)
    with pytest.raises(UnknownNameError, match=r"carrier_pigeon.*known: dctcp"):
        env.reset()


def test_a_thousand_resets_leak_neither_memory_nor_descriptors() -> None:
    env = RackBatch(spec(rack(periods=2)), FLOWS, seed=1)

    def resets(n: int) -> None:
        for episode in range(n):
            env.reset(episode)
            env.step(TOP)
        gc.collect()

    resets(100)
    before, files = resident_bytes(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path.iterdir opens one itself
    resets(1000)
    assert resident_bytes() - before < 4 * 2**20
    assert len(os.listdir("/proc/self/fd")) <= files  # noqa: PTH208


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
