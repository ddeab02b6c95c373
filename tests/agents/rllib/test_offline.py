# SPDX-License-Identifier: BSD-3-Clause
"""MARWIL and BC of RLlib on recorded episodes: on a toy where the right action is obvious, and by the mains."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")

import ray

from ncc.agents.policy import load_policy
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.learners import network
from ncc.agents.rllib.offline import Recorded, offline_algorithm
from ncc.core.errors import ConfigError
from ncc.harness.episodes import FILE, Episode, EpisodeInfo, read_episodes, write_episode
from ncc.harness.learner import Progress
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.run.learning import read_learning
from tests.mains.commands import TINY, ncc

pytestmark = [pytest.mark.rllib, pytest.mark.usefixtures("ray_results")]
EPOCHS, HOSTS, NUMBERS, ACTIONS = 100, 4, 3, 5
SPECS: dict[str, Any] = {
    "observation": {"seen": "toy"},
    "action": {"shares": [0.5, 2.0]},
    "reward": {"kind": "distance"},
}


class ToyEnv:
    """As large as the recordings; nobody may step it."""

    n_racks, n_agents, obs_dim, n_actions, copies, n_noise = 1, HOSTS, NUMBERS, ACTIONS, 1, 0

    def __init__(self, worker: int) -> None:
        pass

    def close(self) -> None:
        pass


TOY: Any = ToyEnv


def right(obs: np.ndarray) -> np.ndarray:
    """The first number says which action is right."""
    return (obs[..., 0] * ACTIONS).astype(np.int64)


def episode(seed: int, *, good: bool, epochs: int = EPOCHS, terminated: bool = False, hosts: int = HOSTS) -> Episode:
    """Actions that are right, or drawn at random; a wrong one costs by its distance."""
    rng = np.random.default_rng([seed, good])
    obs = rng.random((epochs + 1, hosts, NUMBERS), dtype=np.float32)
    actions = right(obs[:-1]) if good else rng.integers(0, ACTIONS, (epochs, hosts))
    info = EpisodeInfo(
        **SPECS,
        scenario="toy",
        scenario_digest="0123456789abcdef",
        datapath="toy",
        controller="good" if good else "bad",
        seed=seed,
        flow_seed="1",
        obs_dim=NUMBERS,
        n_actions=ACTIONS,
        hosts=tuple(f"h{i}" for i in range(hosts)),
    )
    reward = -np.abs(actions - right(obs[:-1])).astype(np.float32) / 4
    times = np.arange(epochs + 1)
    return Episode(info, times, times * 1e-3, obs, actions, reward, terminated)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten good episodes below good/, ten bad ones below bad/."""
    folder = tmp_path_factory.mktemp("recorded")
    for seed in range(10):
        for good in (True, False):
            write_episode(folder / ("good" if good else "bad") / str(seed) / FILE, episode(seed, good=good))
    return folder


def config(episodes: Path | str, **changes: Any) -> RllibConfig:
    settings = {"algorithm": "bc", "epochs": 10_000, "minibatch": 200, "learning_rate": 5e-3}
    settings |= {"gamma": 0.0, "hidden": (32, 32)}
    return RllibConfig(**{**settings, **changes}, env_runners=0, entropy_coef=0.0, episodes=str(episodes))


def train(made: RllibConfig, folder: Path, *, resume: bool = False, reports: list[Progress] | None = None) -> Path:
    report = (reports if reports is not None else []).append
    return made.build().train(TOY, folder, 1, resume=resume, report=report, meta=SPECS)


def accuracy(policy: Path) -> float:
    """Share of right answers to observations that were never recorded."""
    obs = np.random.default_rng(99).random((2000, NUMBERS), dtype=np.float32)
    return float((load_policy(policy)[0].act(obs, None) == right(obs)).mean())


@pytest.mark.parametrize("algorithm", ["bc", "marwil"])
def test_it_learns_what_good_episodes_do(recorded: Path, tmp_path: Path, algorithm: str) -> None:
    reports: list[Progress] = []
    running = ray.is_initialized()
    learned = train(config(recorded / "good", algorithm=algorithm), tmp_path, reports=reports)
    assert ray.is_initialized() == running, "no Ray is started"
    assert accuracy(learned) > 0.95
    assert accuracy(tmp_path / "policy_untrained.ncc") < 0.5
    assert load_policy(learned)[1]["training"]["algorithm"] == algorithm
    epochs = [progress.epochs for progress in reports]
    assert epochs[0] == 0
    assert epochs == sorted(epochs)
    assert 10_000 <= epochs[-1] < 10_900, "ten passes over ten episodes of 100 epochs, and at most an update more"
    assert reports[-1].scalars["loss/policy"] < np.log(ACTIONS), "that of equal odds"
    assert not any(progress.returns for progress in reports), "nobody plays"


def test_of_good_and_bad_episodes_marwil_follows_the_good(recorded: Path, tmp_path: Path) -> None:
    both = f"{recorded}/*"
    imitated = accuracy(train(config(both), tmp_path / "bc"))
    weighed = accuracy(train(config(both, algorithm="marwil"), tmp_path / "marwil"))
    assert weighed > 0.9
    assert weighed > imitated + 0.05


def test_a_training_that_goes_on_is_one_that_was_never_interrupted(recorded: Path, tmp_path: Path) -> None:
    settings = partial(config, f"{recorded}/*", algorithm="marwil", hidden=(8,))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(settings(epochs=1600), whole)
    train(settings(epochs=800), parts)
    reports: list[Progress] = []
    train(settings(epochs=1600), parts, resume=True, reports=reports)
    assert reports[0].epochs >= 800
    layers = [load_policy(folder / "policy.ncc")[0].layers for folder in (whole, parts)]
    for (weight, bias), (other_weight, other_bias) in zip(*layers, strict=True):
        assert np.array_equal(weight, other_weight)
        assert np.array_equal(bias, other_bias)


def test_a_pass_takes_every_episode_once_and_goes_on_anywhere() -> None:
    episodes = [episode(i, good=True, epochs=10 + i, hosts=3 + i) for i in range(4)]  # a pass has 46 epochs

    def source(position: int = 0) -> Recorded:
        return Recorded(episodes, seed=1, gamma=0.5, gae_lambda=1.0, position=position)

    whole = source()
    passes = [[one.info.seed for one in whole.take(46)] for _ in range(4)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in passes)
    assert passes != [passes[0]] * 4, "each pass has an order of its own"
    assert (whole.position, whole.taken_epochs) == (16, 4 * 46)
    for position in range(16):
        again = source(position)
        before, (one,) = again.taken_epochs, again.take(1)
        assert one.info.seed == passes[position // 4][position % 4]
        assert again.taken_epochs == before + len(one.actions)
        assert before == 46 * (position // 4) + sum(10 + i for i in passes[position // 4][: position % 4])


def test_a_training_does_not_go_on_with_other_recordings(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_episode(tmp_path / "kept" / str(seed) / FILE, episode(seed, good=True))
    train(config(tmp_path / "kept", epochs=1000), tmp_path / "run")
    checkpoints = set((tmp_path / "run" / "checkpoints").iterdir())
    write_episode(tmp_path / "kept" / "2" / FILE, episode(2, good=False))
    with pytest.raises(ConfigError, match=r"has learnt from other recordings than agent\.episodes names now"):
        train(config(tmp_path / "kept", epochs=2000), tmp_path / "run", resume=True)
    assert set((tmp_path / "run" / "checkpoints").iterdir()) == checkpoints
    write_episode(tmp_path / "kept" / "2" / FILE, episode(2, good=True))
    train(config(tmp_path / "kept", epochs=2000), tmp_path / "run", resume=True)


@pytest.mark.parametrize("terminated", [True, False])
def test_value_targets_are_discounted_sums_and_go_on_where_time_was_up(tmp_path: Path, terminated: bool) -> None:
    import torch

    recording = episode(1, good=False, epochs=3, terminated=terminated)
    write_episode(tmp_path / FILE, recording)
    made = config(tmp_path, algorithm="marwil", gamma=0.5)
    algorithm = offline_algorithm(made.build().config, TOY, SPECS, 1, 0)
    module = network(algorithm)
    batch = algorithm.recorded.batch(algorithm.recorded.take(3), module)
    expected = {}
    for host in range(HOSTS):
        with torch.no_grad():
            last = float(module.compute_values({"obs": torch.from_numpy(recording.obs[3, host])[None]})[0])
        following = 0.0 if terminated else last
        for t in (2, 1, 0):
            following = 0.5 * float(recording.reward[t, host]) + 0.5 * following  # rewards are scaled by 1 - gamma
            expected[tuple(recording.obs[t, host].tolist())] = following
    found = {tuple(obs.tolist()): float(v) for obs, v in zip(batch["obs"], batch["value_targets"], strict=True)}
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-6)


def test_recordings_that_do_not_fit_are_refused(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no recorded episode"):
        train(config(tmp_path / "nowhere"), tmp_path / "run")
    other = config(recorded / "good").build()
    for specs, said in (
        ({**SPECS, "action": {"shares": [0.5, 3.0]}}, r"another env\.action .*\(shares \[0.5, 2.0\] in place of"),
        ({**SPECS, "observation": {"seen": "else"}}, r"another env\.observation"),
    ):
        with pytest.raises(ConfigError, match=said):
            other.train(TOY, tmp_path / "run", 1, resume=False, report=print, meta=specs)

    paid = {**SPECS, "reward": {"kind": "utility"}}
    marwil = config(recorded / "good", algorithm="marwil").build()
    with pytest.raises(ConfigError, match=r"another env\.reward .*\(kind 'distance' in place of 'utility'\)"):
        marwil.train(TOY, tmp_path / "run", 1, resume=False, report=print, meta=paid)
    other.train(TOY, tmp_path / "bc", 1, resume=False, report=print, meta=paid)  # bc reads no rewards

    larger: Any = type("Larger", (ToyEnv,), {"obs_dim": 9})
    with pytest.raises(ConfigError, match="environment 9 and 5; record the scenario that you train for"):
        other.train(larger, tmp_path / "run", 1, resume=False, report=print, meta=SPECS)
    assert not (tmp_path / "run").exists()


def test_from_recording_to_judged_policy_by_the_mains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
    scenario = tuple(o for o in TINY if o.startswith("scenario."))
    recording = ("record=true", "scenario=rack", *scenario, "controller=[fixed_share]", "datapath=packetsim", "seeds=3")
    recorded = ncc("evaluate", *recording, "out=kept", cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    episodes = read_episodes(str(tmp_path / "kept"))
    assert len(episodes) == 3
    arguments = (
        *("agent=rllib_marwil", "agent.algorithm=bc", "agent.episodes=kept", "agent.epochs=2000"),
        *("agent.minibatch=50", *TINY, "evaluation.datapaths=[packetsim]", "evaluation.controllers=[ncc,fixed_share]"),
    )
    trained = ncc("train", *arguments, "out=run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    run = tmp_path / "run"
    assert is_sealed(run)
    files = set(read_manifest(run, "training").files)
    assert {"policy.ncc", "policy_untrained.ncc", "learning.jsonl"} <= files
    assert "learning_curve.png" not in files, "no episode was played"
    assert any(name.startswith("tensorboard/") for name in files)
    assert read_learning(run)[-1]["epochs"] >= 2000
    # The expert answers 3 of 10 whatever it sees: so does its pupil.
    assert (load_policy(run / "policy.ncc")[0].act(episodes[0].obs[0], None) == 3).all()
    refused = ncc("train", *arguments, "env.action.levels=5", "out=other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "recorded with another env.action than this run's (levels 10 in place of 5)" in refused.stderr
    assert not (tmp_path / "other").exists()
