# SPDX-License-Identifier: BSD-3-Clause
"""The warm start: it learns the expert's answers and what they earn, repeats bit for bit, and comes exactly once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.agents.a3c.checkpoint import CheckpointFolder
from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.network import ActorCritic
from ncc.agents.a3c.warm_start import WarmStart
from ncc.agents.policy import load_policy
from ncc.core.errors import ConfigError, ResultError
from ncc.core.value import from_json
from ncc.harness.batch import ActionArray, Advice, BatchedEnv, ObsArray, Transition
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity, Steering, SteeringEnv, cut

WARM = WarmStart(epochs=4000, batch_size=64)
CONFIG = A3cConfig(
    mode="sync", epochs=800, rollout=10, gamma=0.9, learning_rate=1e-4, checkpoint_epochs=320, warm_start=WARM
)
BRIEF = WARM.replace(epochs=800, rollout=15)
SHORT = CONFIG.replace(hidden=(8,), warm_start=BRIEF)
POLICIES = ("policy_untrained.npz", "policy_warm.npz", "policy.npz")


def train(folder: Path, env: BatchedEnv, config: A3cConfig = SHORT, *, seed: int = 1, resume: bool = False) -> Any:
    return fit(config, lambda worker: env, folder, seed=seed, resume=resume)


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in POLICIES]


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").iterdir())


def hit_frac(path: Path) -> float:
    """Share of the likeliest actions that are the expert's, in episodes not met before."""
    policy, _ = load_policy(path)
    env, hits = SteeringEnv(seed=77), []
    obs = env.reset()
    for _ in range(400):
        actions = policy.act(obs, None)
        hits.append((actions == env.advice().label).mean())
        obs = env.step(actions).obs
    return float(np.mean(hits))


def test_the_expert_is_learnt_before_reinforcement_learning(tmp_path: Path) -> None:
    reports = train(tmp_path, SteeringEnv(), CONFIG)
    assert hit_frac(tmp_path / "policy_warm.npz") > 0.95
    assert hit_frac(tmp_path / "policy.npz") > 0.9, "at wang2021's online rate little is forgotten"
    assert hit_frac(tmp_path / "policy_untrained.npz") < 0.5
    warm = [r.scalars for r in reports if "loss/imitation" in r.scalars]
    names = {"imitation/accuracy", "imitation/recall", "policy/entropy", "loss/value", "value/explained_variance"}
    assert names <= set(warm[-1])
    assert warm[-1]["imitation/accuracy"] > 0.7  # a mean over the time since the report before
    assert not any("loss/policy" in scalars for scalars in warm)
    _, meta = load_policy(tmp_path / "policy_warm.npz")
    assert meta["training"] == {"learner": "a3c", "mode": "sync", "seed": 1, "epochs": 0, "warm_epochs": 4000}
    _, meta = load_policy(tmp_path / "policy.npz")
    assert (meta["training"]["epochs"], meta["training"]["warm_epochs"]) == (800, 4000)
    _, meta = load_policy(tmp_path / "policy_untrained.npz")
    assert "warm_epochs" not in meta["training"]


def test_epochs_come_on_top_and_are_counted_once(tmp_path: Path) -> None:
    assert CONFIG.build().total_epochs == 4800
    env = SteeringEnv()
    reports = train(tmp_path, env, SHORT.replace(warm_start=BRIEF.replace(epochs=801)))
    epochs = [report.epochs for report in reports]
    assert epochs == sorted(epochs)
    assert (epochs[0], epochs[-1]) == (0, 804 + 800)  # rounded up to a whole step of four racks
    assert {report.total_epochs for report in reports} == {1601}
    assert (len(env.advised), len(env.actions)) == (201, 401)
    # Episodes of 40 epochs: five were finished and one begun, so what follows starts at the seventh.
    assert env.resets[:2] == [0, 6]
    assert [path.stem for path in checkpoints(tmp_path)] == [f"checkpoint-{n:015d}" for n in (320, 640, 800)]


@pytest.mark.parametrize(("kl_coef", "cuts"), [(0.0, (1, 150, 200, 230, 310)), (0.3, (200, 310))])
def test_resumed_equals_uninterrupted_wherever_it_was_cut(
    tmp_path: Path, kl_coef: float, cuts: tuple[int, ...]
) -> None:
    config, whole = SHORT.replace(kl_coef=kl_coef), tmp_path / "whole"
    train(whole, SteeringEnv(), config)
    # 200 steps of warm start, then 200 that learn from rewards, with a checkpoint every 80
    for steps in cuts:
        begun, rest = tmp_path / str(steps), SteeringEnv()
        with pytest.raises(KeyboardInterrupt):
            train(begun, cut(SteeringEnv(), steps), config)
        assert (begun / "policy_warm.npz").exists() == (steps >= 200)
        reports = train(begun, rest, config, resume=True)
        assert files(begun) == files(whole)
        assert checkpoints(begun)[-1].read_bytes() == checkpoints(whole)[-1].read_bytes()
        # Begun again from the start, or not at all.
        assert len(rest.advised) == (200 if steps < 200 else 0)
        assert reports[0].epochs == {1: 0, 150: 0, 200: 800, 230: 800, 310: 800 + 320}[steps]


def test_the_expert_drives_first_and_then_the_policy(tmp_path: Path) -> None:
    env = SteeringEnv(transport=True)  # who drives by doing nothing, whatever it answers
    train(tmp_path, env, CONFIG.replace(warm_start=WARM.replace(driven_frac=0.25)))
    nothing = env.n_actions - 1
    assert all((actions == nothing).all() for actions in env.actions[:250])
    assert np.mean([actions == nothing for actions in env.actions[250:300]]) < 0.5
    assert len(env.advised) == 1000
    # What is learnt is the answer, not what was done.
    assert hit_frac(tmp_path / "policy_warm.npz") > 0.9


def test_skipped_epochs_are_not_learnt_from_and_the_expert_is_not_asked(tmp_path: Path) -> None:
    # 1000 steps: the expert drives the first 250, and of the others one in four is learnt from.
    env = SteeringEnv()
    train(tmp_path, env, CONFIG.replace(warm_start=WARM.replace(every=4, driven_frac=0.25, rollout=10)))
    assert len(env.advised) == 250 + sum(step % 4 == 0 for step in range(250, 1000))
    assert hit_frac(tmp_path / "policy_warm.npz") > 0.9


def warm_model(folder: Path) -> tuple[ActorCritic, Any]:
    """The networks after the warm start and at most one update, and their weights."""
    checkpoint = CheckpointFolder(folder, 3).load("sync", 1)
    model = ActorCritic(checkpoint.shape)
    model.load(checkpoint.state.params)
    return model, checkpoint.state.params


def test_the_value_foresees_returns(tmp_path: Path) -> None:
    config = CONFIG.replace(epochs=1, learning_rate=1e-9)
    train(tmp_path, SteeringEnv(), config)
    model, _ = warm_model(tmp_path)
    policy, _ = load_policy(tmp_path / "policy_warm.npz")
    env, rng = SteeringEnv(seed=78, n_racks=64, length=100), np.random.default_rng(1)
    obs = env.reset()
    seen, rewards = [], []
    for _ in range(99):
        seen.append(obs)
        step = env.step(policy.act(obs, rng))
        obs = step.obs
        rewards.append((1 - config.gamma) * step.reward.astype(np.float64))
    # The first 10 epochs, in which hosts start far from 0; what is more than 89 epochs off counts 0.9^89 < 1e-4.
    returns = np.zeros_like(rewards[0])
    following = []
    for reward in reversed(rewards):
        returns = reward + config.gamma * returns
        following.append(returns)
    true = np.array(following[::-1])[:10]
    foreseen = model.value(np.array(seen[:10]))
    assert 1 - np.var(true - foreseen) / np.var(true) > 0.9
    assert foreseen.mean() == pytest.approx(true.mean(), abs=0.05), "in units of the mean reward per epoch"


class Seldom:
    """One of 20 answers: to limit, at one of 19 levels, is right in 3 % of cases, and the observation says when."""

    n_racks, n_agents, obs_dim, n_actions, copies, n_noise, episode = 16, 4, 4, 20, 1, 0, 0

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def reset(self, episode: int = 0) -> ObsArray:
        self._x = self._rng.random((self.n_racks, self.n_agents, self.obs_dim), np.float32)
        return self._x

    def step(self, actions: ActionArray) -> Transition:
        reward, never = (actions == self.advice().label).astype(np.float32), np.zeros(self.n_racks, np.bool_)
        obs = self.reset()
        return Transition(obs, reward, never, never, obs)

    def advice(self) -> Advice:
        label = np.where(self._x[..., 1] > 0.97, (self._x[..., 0] * 19).astype(np.int64), 19)
        return Advice(label, label)

    def close(self) -> None:
        pass


def test_rare_answers_are_found_with_balance(tmp_path: Path) -> None:
    found = {}
    for balance in (0.0, 0.5):
        folder = tmp_path / str(balance)
        warm = WarmStart(epochs=10_000, learning_rate=7e-3, balance=balance)
        train(folder, Seldom(1), A3cConfig(mode="sync", epochs=16, warm_start=warm))
        policy, _ = load_policy(folder / "policy_warm.npz")
        env, near = Seldom(2), []
        for _ in range(300):
            obs = env.reset()
            label = env.advice().label
            near.append((np.abs(policy.act(obs, None) - label) <= 2)[label < 17])
        found[balance] = np.concatenate(near).mean()
    assert found[0.0] < 0.3
    assert found[0.5] > 0.7


def test_the_policy_stays_near_its_warm_start_where_asked_to(tmp_path: Path) -> None:
    distance = {}
    for kl_coef in (1e-9, 3.0):
        config = CONFIG.replace(warm_start=BRIEF, learning_rate=1e-2, kl_coef=kl_coef, kl_coef_final=kl_coef)
        reports = train(tmp_path / str(kl_coef), SteeringEnv(), config)
        distance[kl_coef] = reports[-1].scalars["policy/kl"]
    assert 0 <= distance[3.0] < 0.3 * distance[1e-9]
    free = train(tmp_path / "free", SteeringEnv())
    assert "policy/kl" not in free[-1].scalars


def test_asynchronous_training_begins_where_the_synchronous_one_does(tmp_path: Path) -> None:
    config = SHORT.replace(mode="async", workers=1, kl_coef=0.1)
    reports = fit(config, Steering(), tmp_path / "async")
    train(tmp_path / "sync", SteeringEnv())
    one, other = (load_policy(tmp_path / mode / "policy_warm.npz")[0] for mode in ("async", "sync"))
    assert all(
        (a == b).all()
        for left, right in zip(one.layers, other.layers, strict=True)
        for a, b in zip(left, right, strict=True)
    )
    assert reports[-1].epochs == 1600
    assert "policy/kl" in reports[-1].scalars
    saved = CheckpointFolder(tmp_path / "async", 3).load("async", 1)
    assert (saved.warm_epochs, saved.state.epochs) == (800, 800)
    again = fit(config.replace(epochs=1000), Steering(), tmp_path / "async", resume=True)
    assert not any("loss/imitation" in report.scalars for report in again)
    assert (again[0].epochs, again[-1].epochs) == (1600, 1800)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_without_an_expert_it_says_what_to_set(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ConfigError, match=r"knows an expert.*`expert`") as error:
        fit(SHORT.replace(mode=mode), Identity(), tmp_path)
    assert "IdentityEnv" in str(error.value)
    assert not (tmp_path / "checkpoints").exists()


def test_advice_that_contradicts_the_environment_is_refused(tmp_path: Path) -> None:
    def wrong(change: Callable[[Advice], Advice]) -> SteeringEnv:
        env = SteeringEnv()
        good = env.advice
        env.advice = lambda: change(good())  # type: ignore[method-assign]
        return env

    with pytest.raises(ConfigError, match=r"advice\(\).label must be actions from 0 to 5 .* got [6-9] to [7-9]"):
        train(tmp_path / "a", wrong(lambda advice: Advice(advice.label + 6, advice.drive)))
    with pytest.raises(ConfigError, match=r"advice\(\).drive must be .* of shape \[4, 4\], got .* shape \[4\]"):
        train(tmp_path / "b", wrong(lambda advice: Advice(advice.label, advice.drive[0])))


def test_checkpoints_with_and_without_a_warm_start_are_not_mixed(tmp_path: Path) -> None:
    train(tmp_path / "warm", SteeringEnv())
    with pytest.raises(ResultError, match="from a run with a warm start"):
        train(tmp_path / "warm", SteeringEnv(), SHORT.replace(warm_start=None), resume=True)
    train(tmp_path / "cold", SteeringEnv(), SHORT.replace(warm_start=None))
    with pytest.raises(ResultError, match="without a warm start, and it is too late"):
        train(tmp_path / "cold", SteeringEnv(), resume=True)


def test_a_policy_to_stay_near_must_be_there(tmp_path: Path) -> None:
    config = SHORT.replace(kl_coef=0.1)
    train(tmp_path, SteeringEnv(), config)
    longer, warm = config.replace(epochs=1600), tmp_path / "policy_warm.npz"
    train(tmp_path / "other", SteeringEnv(), SHORT.replace(hidden=(9,)))
    warm.write_bytes((tmp_path / "other" / "policy_warm.npz").read_bytes())
    with pytest.raises(ResultError, match=r"policy_warm.npz has shape 2-9-6 .* the run has 2-8-6"):
        train(tmp_path, SteeringEnv(), longer, resume=True)
    warm.unlink()
    with pytest.raises(ResultError, match=r"no ncc-policy at .*policy_warm.npz"):
        train(tmp_path, SteeringEnv(), longer, resume=True)


def test_settings_travel_as_json_and_need_each_other() -> None:
    config = A3cConfig(warm_start=WarmStart(value=False), kl_coef_final=0.1)
    assert from_json(A3cConfig, config.to_json(), "agent") == config
    with pytest.raises(ConfigError, match=r"kl_coef .* set warm_start"):
        A3cConfig(kl_coef=0.1)
    with pytest.raises(ConfigError, match="memory_samples must be at least batch_size"):
        WarmStart(memory_samples=511)
