# SPDX-License-Identifier: BSD-3-Clause
"""A2C repeats bit for bit, also across an interruption; checkpoints are whole, fit, or are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.run import FORMAT, KIND
from ncc.agents.arrays import packed_arrays, unpacked_arrays
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, load_policy
from ncc.core.errors import ConfigError, InvalidRunError, ResultError
from ncc.harness.batch import ActionArray, ObsArray, Transition
from ncc.harness.learner import Progress
from tests.agents.fitting import fit
from tests.agents.toy_envs import IdentityEnv, cut
from tests.support.extras import needs_extra

CONFIG = A3cConfig(mode="sync", epochs=2000, rollout=7, hidden=(8,), checkpoint_epochs=300, learning_rate_final=0.0)


def train(
    folder: Path, env: IdentityEnv, *, config: A3cConfig = CONFIG, seed: int = 1, resume: bool = False
) -> list[Progress]:
    return fit(config, lambda worker: env, folder, seed=seed, resume=resume, meta={"action": {"levels": 3}})


def identity(lengths: tuple[int, ...] = (40, 40), **options: Any) -> IdentityEnv:
    return IdentityEnv(1, lengths, **options)


def weights(path: Path) -> bytes:
    policy, _ = load_policy(path)
    return b"".join(array.tobytes() for layer in policy.layers for array in layer)


def checkpoints(folder: Path) -> list[str]:
    return sorted(p.name for p in (folder / "checkpoints").iterdir())


def epochs_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def test_equal_seeds_give_bit_equal_weights_and_actions(tmp_path: Path) -> None:
    envs = [identity(), identity(), identity()]
    for name, env, seed in zip("abc", envs, (1, 1, 2), strict=True):
        train(tmp_path / name, env, seed=seed)
    assert weights(tmp_path / "a" / POLICY_FILE) == weights(tmp_path / "b" / POLICY_FILE)
    assert weights(tmp_path / "a" / POLICY_FILE) != weights(tmp_path / "c" / POLICY_FILE)
    assert weights(tmp_path / "a" / UNTRAINED_FILE) != weights(tmp_path / "a" / POLICY_FILE)
    assert all((x == y).all() for x, y in zip(envs[0].actions, envs[1].actions, strict=True))
    for name, epochs in ((POLICY_FILE, 2000), (UNTRAINED_FILE, 0)):
        made_by = {"learner": "a3c", "mode": "sync", "seed": 2, "epochs": epochs}
        assert load_policy(tmp_path / "c" / name)[1] == {"action": {"levels": 3}, "training": made_by}


@pytest.mark.parametrize(
    ("lengths", "terminates"),
    [
        pytest.param((40, 40), False, id="end together"),
        pytest.param((40, 40), True, id="terminate"),
        pytest.param((40, 27), False, id="seldom end together"),
        pytest.param((5000, 5000), False, id="longer than the interval"),
    ],
)
def test_resumed_equals_uninterrupted(tmp_path: Path, lengths: tuple[int, ...], *, terminates: bool) -> None:
    whole, config = tmp_path / "whole", CONFIG.replace(epochs=1200)
    train(whole, identity(lengths, terminates=terminates), config=config)
    last = checkpoints(whole)[-1]
    for stop_after_steps in (1, 163, 444):
        begun, env = tmp_path / str(stop_after_steps), identity(lengths, terminates=terminates)
        with pytest.raises(KeyboardInterrupt):
            train(begun, cut(identity(lengths, terminates=terminates), stop_after_steps), config=config)
        assert not (begun / POLICY_FILE).exists()
        assert (begun / UNTRAINED_FILE).exists()
        reports = train(begun, env, config=config, resume=True)
        if stop_after_steps == 1:  # reports of these epochs may be in a log already
            assert (reports[0].epochs, reports[0].returns, reports[0].scalars) == (0, (), {})
        assert env.closed
        assert weights(whole / POLICY_FILE) == weights(begun / POLICY_FILE)
        assert checkpoints(whole) == checkpoints(begun)
        assert (whole / "checkpoints" / last).read_bytes() == (begun / "checkpoints" / last).read_bytes()


@pytest.mark.parametrize(
    ("lengths", "epochs", "saved", "resets"),
    [
        # 80 epochs an episode of both racks; due after 300, so at the end of every 4th episode
        pytest.param((40, 40), 1600, [0, 320, 640, 960, 1280, 1600], [0, 4, 8, 12, 16], id="between episodes"),
        # due after 300 epochs, cut after 600 at the latest, at the end of a rollout of 14 epochs: 602
        pytest.param((5000, 4999), 2000, [0, 602, 1204, 1806, 2000], [0, 1, 2, 3], id="cut, and none comes twice"),
    ],
)
def test_checkpoints_fall_between_episodes(
    tmp_path: Path, lengths: tuple[int, ...], epochs: int, saved: list[int], resets: list[int]
) -> None:
    env = identity(lengths)
    train(tmp_path, env, config=CONFIG.replace(epochs=epochs, keep_checkpoints=100))
    assert [epochs_of(name) for name in checkpoints(tmp_path)] == saved
    assert env.resets[: len(resets)] == resets


def test_epochs_are_exact_and_returns_are_means_per_host_and_epoch(tmp_path: Path) -> None:
    env = identity((40, 40))
    reports = train(tmp_path, env, config=CONFIG.replace(epochs=1001))
    assert reports[-1].epochs == 1002  # rounded up to a whole step of both racks
    assert len(env.actions) == 501
    returns = [value for report in reports for value in report.returns]
    assert len(returns) == 2 * (501 // 40)
    hits = np.array([reward_of(env, t) for t in range(40)])
    assert returns[:2] == pytest.approx(hits.mean(axis=(0, 2)).tolist())
    names = {"loss/policy", "loss/value", "policy/entropy", "value/explained_variance", "update/grad_norm"}
    assert names <= set(reports[-1].scalars)


def reward_of(env: IdentityEnv, step: int) -> np.ndarray[Any, Any]:
    """[n_racks, n_agents] what the recorded action of that step, of the first episode, earned."""
    fresh = identity((40, 40))
    fresh.reset()
    return [fresh.step(actions).reward for actions in env.actions[: step + 1]][-1]


def test_a_finished_run_resumes_without_an_environment_and_can_be_extended(tmp_path: Path) -> None:
    train(tmp_path, identity())
    before = weights(tmp_path / POLICY_FILE)
    (tmp_path / POLICY_FILE).unlink()

    def no_env(worker: int) -> IdentityEnv:
        raise AssertionError("nothing is left to do")

    fit(CONFIG, no_env, tmp_path, resume=True)
    assert weights(tmp_path / POLICY_FILE) == before
    env = identity()
    reports = train(tmp_path, env, config=CONFIG.replace(epochs=2500), resume=True)
    assert reports[-1].epochs == 2500
    assert env.resets[0] == 25  # 2000 epochs are 25 episodes of two racks of 40


def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    import torch

    threads, env = torch.get_num_threads(), cut(identity(), 10)
    with pytest.raises(ResultError, match="no checkpoint to resume"):
        train(tmp_path, identity(), resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(ResultError, match="cannot write"):
        train(tmp_path / "file", identity())
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, env)
    assert env.closed
    assert torch.get_num_threads() == threads
    with pytest.raises(ResultError, match="belongs to an earlier training"):
        train(tmp_path, identity())
    longer = CONFIG.replace(epochs=4000)
    with pytest.raises(ResultError, match=r"made with networks of 4-8-4, not networks of 6-8-6; resume with the conf"):
        train(tmp_path, identity(n_actions=6), config=longer, resume=True)
    with pytest.raises(ResultError, match=r"'seed': 1}, not .*'seed': 2}"):
        train(tmp_path, identity(), config=longer, seed=2, resume=True)
    with pytest.raises(ResultError, match=r"'mode': 'sync', .* not .*'mode': 'async'"):
        train(tmp_path, identity(), config=longer.replace(mode="async"), resume=True)


def test_damaged_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    train(tmp_path, identity())
    path = tmp_path / "checkpoints" / checkpoints(tmp_path)[-1]
    whole = path.read_bytes()
    meta, arrays = unpacked_arrays(whole, KIND, FORMAT, "x")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 4
    short = {**arrays, "params": arrays["params"][:-1]}
    for data, message in (
        (whole[: len(whole) // 2], "is no checkpoint of A3C|is damaged"),
        (b"", "is no checkpoint of A3C|is damaged"),
        (bytes(flipped), "is no checkpoint of A3C|is damaged"),
        (packed_arrays(KIND, meta, short), "is damaged"),
        (packed_arrays(KIND, meta, {k: v for k, v in arrays.items() if k != "square"}), "is damaged"),
        (packed_arrays(KIND, {k: v for k, v in meta.items() if k != "episode"}, arrays), "is damaged"),
        (packed_arrays(KIND, {**meta, "format": FORMAT + 1}, arrays), "has format '4' and this ncc reads format 3"),
    ):
        path.write_bytes(data)
        with pytest.raises(ResultError, match=message) as error:
            train(tmp_path, identity(), resume=True)
        assert path.name in str(error.value)


def test_numbers_that_are_not_finite_end_the_run(tmp_path: Path) -> None:
    class BadReward(IdentityEnv):
        def step(self, actions: ActionArray) -> Transition:
            step = super().step(actions)
            if len(self.actions) == 60:
                step.reward[1, 0] = np.nan
            return step

    class BadObs(IdentityEnv):
        def reset(self, episode: int = 0) -> ObsArray:
            return super().reset(episode) + np.float32(np.inf)

    with pytest.raises(InvalidRunError, match="reward of host 0 in rack 1 is nan"):
        train(tmp_path / "reward", BadReward(1, (40, 40)))
    with pytest.raises(InvalidRunError, match="observations or weights"):
        train(tmp_path / "obs", BadObs(1, (40, 40)))
    assert not (tmp_path / "reward" / POLICY_FILE).exists()


@needs_extra("torch")
def test_an_environment_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    env = identity()
    env.n_agents = 5
    env.reset = lambda episode=0: np.zeros((2, 2, 4), np.float32)  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match=r"must observe \[2, 5, 4\] as it states, got \[2, 2, 4\]"):
        train(tmp_path, env)
