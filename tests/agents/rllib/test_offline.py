# SPDX-License-Identifier: BSD-3-Clause
"""MARWIL and BC of RLlib on recorded episodes: on a toy where the right action is obvious, and by the mains."""

import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.agents.policy import load_policy
from ncc.agents.rllib.config import RllibConfig
from ncc.core.errors import ConfigError
from ncc.harness.episodes import FILE, Episode, EpisodeInfo, read_episodes, write_episode
from ncc.harness.learner import Progress
from ncc.harness.manifest import is_sealed, read_manifest
from ncc.learning import read_learning
from tests.mains.commands import TINY, ncc

pytestmark = [
    pytest.mark.rllib,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed (ncc[rllib])"),
]
EPOCHS, HOSTS, NUMBERS, ACTIONS = 100, 4, 3, 5
SPECS: dict[str, Any] = {
    "observation": {"seen": "toy"},
    "action": {"shares": [0.5, 2.0]},
    "reward": {"kind": "distance"},
}


class ToyEnv:
    """As large as the recordings; nobody may step it."""

    n_racks, n_agents, obs_dim, n_actions = 1, HOSTS, NUMBERS, ACTIONS

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
    settings = {"algorithm": "bc", "epochs": 20_000, "minibatch": 400, "gamma": 0.0, "learning_rate": 3e-3}
    return RllibConfig(**{**settings, **changes}, env_runners=0, entropy_coef=0.0, episodes=str(episodes))


def train(made: RllibConfig, folder: Path, *, resume: bool = False, heard: list[Progress] | None = None) -> Path:
    report = (heard if heard is not None else []).append
    return made.build().train(TOY, folder, 1, resume=resume, report=report, meta=SPECS)


def accuracy(policy: Path) -> float:
    """Share of right answers to observations that were never recorded."""
    obs = np.random.default_rng(99).random((2000, NUMBERS), dtype=np.float32)
    return float((load_policy(policy)[0].act(obs, None) == right(obs)).mean())


@pytest.mark.parametrize("algorithm", ["bc", "marwil"])
def test_it_learns_what_good_episodes_do(recorded: Path, tmp_path: Path, algorithm: str) -> None:
    heard: list[Progress] = []
    learned = train(config(recorded / "good", algorithm=algorithm), tmp_path, heard=heard)
    assert accuracy(learned) > 0.95
    assert accuracy(tmp_path / "policy_untrained.npz") < 0.5
    assert load_policy(learned)[1]["training"]["algorithm"] == algorithm
    epochs = [progress.epochs for progress in heard]
    assert epochs[0] == 0
    assert epochs == sorted(epochs)
    assert 20_000 <= epochs[-1] < 20_900, "twenty passes over ten episodes of 100 epochs, and at most an update more"
    assert heard[-1].scalars["loss/policy"] < np.log(ACTIONS), "that of equal odds"
    assert not any(progress.returns for progress in heard), "nobody plays"


def test_of_good_and_bad_episodes_marwil_follows_the_good(recorded: Path, tmp_path: Path) -> None:
    both = f"{recorded}/*"
    imitated = accuracy(train(config(both), tmp_path / "bc"))
    weighed = accuracy(train(config(both, algorithm="marwil"), tmp_path / "marwil"))
    assert weighed > 0.9
    assert weighed > imitated + 0.05


def test_no_ray_is_started(recorded: Path, tmp_path: Path) -> None:
    import ray

    running = ray.is_initialized()
    train(config(recorded / "good", epochs=1000), tmp_path)
    assert ray.is_initialized() == running


@pytest.mark.parametrize("algorithm", ["bc", "marwil"])
def test_a_training_that_goes_on_is_one_that_was_never_interrupted(
    recorded: Path, tmp_path: Path, algorithm: str
) -> None:
    settings = partial(config, f"{recorded}/*", algorithm=algorithm)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(settings(epochs=6000), whole)
    train(settings(epochs=3000), parts)
    heard: list[Progress] = []
    train(settings(epochs=6000), parts, resume=True, heard=heard)
    assert heard[0].epochs >= 3000
    layers = [load_policy(folder / "policy.npz")[0].layers for folder in (whole, parts)]
    for (weight, bias), (other_weight, other_bias) in zip(*layers, strict=True):
        assert np.array_equal(weight, other_weight)
        assert np.array_equal(bias, other_bias)


def test_a_pass_takes_every_host_of_every_episode_once_and_each_pass_in_another_order() -> None:
    from ncc.agents.rllib.recorded import Recorded

    episodes = [episode(1, good=True, epochs=10), episode(2, good=True, epochs=30)]
    source = Recorded(episodes, seed=1, reward_scale=0.5)
    passes = [source.take(40), source.take(40)]
    assert source.taken_epochs == 80
    orders = []
    for taken in passes:
        assert len(taken) == 2 * HOSTS
        firsts = [tuple(one.get_observations(0)) for one in taken]
        assert len(set(firsts)) == 2 * HOSTS
        orders.append(firsts)
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    again = Recorded(episodes, seed=1, reward_scale=0.5, position=2 * HOSTS)
    assert again.taken_epochs == 40
    assert [tuple(one.get_observations(0)) for one in again.take(40)] == orders[1]
    one = passes[0][0]
    number = len(one) == 30
    host = next(h for h in range(HOSTS) if np.array_equal(episodes[number].obs[0, h], one.get_observations(0)))
    assert np.array_equal(one.get_actions(), episodes[number].actions[:, host])
    assert np.array_equal(one.get_rewards(), episodes[number].reward[:, host] / 2)


@pytest.mark.parametrize("hosts", [(3, 3), (7, 7), (3, 7)])
def test_wherever_recordings_are_taken_up_again_updates_are_the_same(hosts: tuple[int, int]) -> None:
    from ncc.agents.rllib.recorded import Recorded

    episodes = [episode(i, good=True, epochs=10, hosts=hosts[i % 2]) for i in range(4)]
    whole = Recorded(episodes, seed=1, reward_scale=0.5)
    starts, epochs = [0], [0]
    for _ in range(60):
        whole.take(10)
        starts.append(whole.position)
        epochs.append(whole.taken_epochs)
    for k, start in enumerate(starts[:-1]):
        again = Recorded(episodes, seed=1, reward_scale=0.5, position=start)
        assert again.taken_epochs == epochs[k]
        for position in starts[k + 1 :]:
            again.take(10)
            assert again.position == position
    assert epochs[-1] >= 10 * 60


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

    from ncc.agents.rllib.offline import offline_algorithm

    recording = episode(1, good=False, epochs=3, terminated=terminated)
    write_episode(tmp_path / FILE, recording)
    made = config(tmp_path, algorithm="marwil", gamma=0.5)
    algorithm = offline_algorithm(made.build().config, TOY, SPECS, 1, 0)
    learner = algorithm.learner_group._learner
    batch = learner._learner_connector(
        rl_module=learner.module, batch={}, episodes=algorithm.recorded.take(3), shared_data={}, metrics=None
    )["default_policy"]
    module = learner.module["default_policy"].unwrapped()
    expected = {}
    for host in range(HOSTS):
        with torch.no_grad():
            last = float(module.compute_values({"obs": torch.from_numpy(recording.obs[3, host])[None]})[0])
        following = 0.0 if terminated else last
        for t in (2, 1, 0):
            following = 0.5 * float(recording.reward[t, host]) + 0.5 * following  # rewards are scaled by 1 - gamma
            expected[tuple(recording.obs[t, host].tolist())] = following
    found = {tuple(obs.tolist()): float(v) for obs, v in zip(batch["obs"], batch["value_targets"], strict=True)}
    assert found.keys() == expected.keys(), "no step is lost, and what was added to bootstrap from is gone"
    assert found == pytest.approx(expected, abs=1e-6)
    algorithm.stop()


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"episodes": None}, "set agent.episodes"),
        ({"env_runners": 1}, "env_runners and entropy_coef must be 0"),
        ({"entropy_coef": 0.01}, "env_runners and entropy_coef must be 0"),
        ({"address": "auto"}, "address is for env runners"),
        ({"form": "multi_agent"}, "multi_agent"),
        ({"beta": 1.5}, "beta"),
        ({"algorithm": "ppo"}, "episodes is for marwil and bc"),
    ],
)
def test_settings_that_mean_nothing_here_are_refused(changes: dict[str, Any], said: str) -> None:
    settings = {"algorithm": "marwil", "env_runners": 0, "entropy_coef": 0.0, "episodes": "x", **changes}
    with pytest.raises(ConfigError, match=said):
        RllibConfig(**settings)


def test_from_recording_to_judged_policy_by_the_mains(tmp_path: Path) -> None:
    scenario = tuple(o for o in TINY if o.startswith("scenario."))
    judging = tuple(o for o in TINY if o.startswith("evaluation."))
    done = ncc(
        "evaluate",
        *("record=true", "scenario=rack", *scenario, "controller=[fixed_share]", "datapath=packetsim", "seeds=3"),
        "out=kept",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert len(read_episodes(tmp_path / "kept")) == 3
    arguments = (
        *("agent=rllib_marwil", "agent.algorithm=bc", "agent.episodes=kept", "agent.epochs=4000"),
        *("agent.minibatch=100", *scenario, *judging, "evaluation.datapaths=[packetsim]"),
        "evaluation.controllers=[ncc,ncc_untrained,fixed_share]",
    )
    done = ncc("train", *arguments, "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    assert is_sealed(run)
    files = set(read_manifest(run, "training").files)
    assert {"policy.npz", "policy_untrained.npz", "learning.jsonl"} <= files
    assert "learning_curve.png" not in files, "no episode was played"
    assert any(name.startswith("tensorboard/") for name in files)
    assert read_learning(run)[-1]["epochs"] >= 4000
    # The expert answers 3 of 10 whatever it sees: so does its pupil.
    assert (load_policy(run / "policy.npz")[0].act(read_episodes(tmp_path / "kept")[0].obs[0], None) == 3).all()
    other = ncc("train", *arguments, "env.action.levels=5", "out=other", cwd=tmp_path)
    assert other.returncode == 2
    assert not (tmp_path / "other").exists()
    assert "recorded with another env.action than this run's (levels 10 in place of 5)" in other.stderr
    assert json.loads((run / "config.json").read_text())["agent"]["algorithm"] == "bc"
