# SPDX-License-Identifier: BSD-3-Clause
"""Training with RLlib: it learns, counts on after an interruption, and outlives its env runners."""

import json
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.agents import progress
from ncc.agents.policy import POLICY_FILE, load_policy
from ncc.agents.rllib.config import RllibConfig
from ncc.core.errors import InvalidRunError, ResultError, WorkerDiedError
from ncc.envs.pairs import Paired, Pairs
from ncc.harness.batch import ActionArray, BatchedEnv, EnvFactory, Transition
from ncc.harness.learner import Progress
from tests.agents.fitting import fit
from tests.agents.test_numbers import AimingEnv, missed
from tests.agents.toy_envs import Identity, IdentityEnv, broken

pytestmark = [pytest.mark.rllib, pytest.mark.usefixtures("ray_here")]
SMALL = RllibConfig(
    env_runners=0, racks=4, rollout=10, epochs=400, hidden=(8,), minibatches=2, checkpoint_epochs=100, gamma=0.9
)


@dataclass(frozen=True)
class Noted:
    """`Identity` whose environments write down which episodes they start."""

    folder: Path
    lengths: tuple[int, ...] = (20, 20)
    killed: bool = False
    """True if worker 0 dies once, after 60 epochs."""

    def __call__(self, worker: int) -> BatchedEnv:
        return NotingEnv(self, worker)


class NotingEnv(IdentityEnv):
    def __init__(self, told: Noted, worker: int) -> None:
        super().__init__(1 + worker, told.lengths)
        self._note, self._marker = told.folder / f"worker{worker}", told.folder / "killed"
        self._left = 60 if told.killed and worker == 0 else -1

    def _draw(self, rack: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        with self._note.open("a") as file:
            file.write(f"{rack} {self._episodes[rack]}\n")
        return super()._draw(rack)

    def step(self, actions: ActionArray) -> Transition:
        self._left -= 1
        if self._left == 0 and not self._marker.exists():
            self._marker.touch()
            signal.raise_signal(signal.SIGKILL)
        return super().step(actions)


@dataclass(frozen=True)
class Hanging:
    """Its environment does not answer until there is a file."""

    file: Path

    def __call__(self, worker: int) -> BatchedEnv:
        return HangingEnv(self.file)


class HangingEnv(IdentityEnv):
    def __init__(self, file: Path) -> None:
        super().__init__(1, (20, 20))
        self._file = file

    def step(self, actions: ActionArray) -> Transition:
        while not self._file.exists():
            time.sleep(0.1)
        return super().step(actions)


def run_state(folder: Path) -> dict[str, Any]:
    newest = max((folder / "checkpoints").iterdir())
    state: dict[str, Any] = json.loads((newest / "run.json").read_text())
    return state


def right_frac(folder: Path, name: str = POLICY_FILE) -> float:
    """The share of right answers of the policy, drawn from, in an identity environment."""
    policy, _ = load_policy(folder / name)
    obs = np.tile(np.eye(4, dtype=np.float32), (500, 1))
    return float((policy.act(obs, np.random.default_rng(5)) == np.tile(np.arange(4), 500)).mean())


@pytest.fixture
def every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update is reported, however fast they follow each other."""
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)


def test_identity_is_learnt_from_two_env_runners(tmp_path: Path) -> None:
    epochs = 2_400
    config = RllibConfig(
        env_runners=2,
        racks=8,
        rollout=25,
        epochs=epochs,
        minibatches=8,
        gamma=0.5,
        learning_rate=2e-2,
        entropy_coef=0.001,
        hidden=(16,),
        checkpoint_epochs=10**6,
    )
    reports = fit(config, Identity((50,) * 8), tmp_path)
    returns = [value for report in reports for value in report.returns]
    assert right_frac(tmp_path, "policy_untrained.ncc") == pytest.approx(0.25, abs=0.05)
    assert right_frac(tmp_path) > 0.8
    assert np.mean(returns[:8]) < 0.5
    assert np.mean(returns[-8:]) > 0.7
    assert reports[-1].epochs == run_state(tmp_path)["epochs"] == epochs
    assert {"loss/policy", "loss/value", "policy/entropy", "update/grad_norm"} <= set(reports[-1].scalars)
    for value in returns:  # the mean of what 2 hosts earned in 50 epochs, each time 0 or 1
        assert value * 100 == pytest.approx(round(value * 100), abs=1e-4)
    assert len(returns) == epochs / 50


def paired(worker: int) -> BatchedEnv:
    return Paired(AimingEnv(n_racks=4, same=2), Pairs(noise_periods=2), 1, worker)


def unpaired(worker: int) -> BatchedEnv:
    return AimingEnv(n_racks=4)


@pytest.mark.parametrize(
    ("changes", "make_env"),
    [
        ({"value_coef": 0.0, "max_advantage": 3.0, "minibatches": 1}, paired),
        ({}, unpaired),
    ],
)
def test_numbers_are_learnt(tmp_path: Path, changes: dict[str, Any], make_env: EnvFactory) -> None:
    config = SMALL.replace(
        epochs=4000, gamma=0.1, noise=0.3, noise_final=0.2, learning_rate=0.02, checkpoint_epochs=4000, **changes
    )
    reports = fit(config, make_env, tmp_path)
    assert missed(tmp_path / "policy.ncc") < 0.5 * missed(tmp_path / "policy_untrained.ncc")
    assert max(value for report in reports for value in report.returns) < 0, "they are what hosts earn themselves"
    spread = 0.5 * np.log(2 * np.pi * np.e) + np.log(0.2)
    assert reports[-1].scalars["policy/entropy"] == pytest.approx(spread, abs=0.05), "noise has fallen"


@pytest.mark.usefixtures("every_update")
def test_ctrl_c_leaves_a_checkpoint_and_a_resumed_run_counts_on(tmp_path: Path) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    notes = tmp_path / "notes"
    notes.mkdir()
    run = tmp_path / "run"
    run.mkdir()

    def press(reached: Progress) -> None:
        if reached.epochs >= 100:
            signal.raise_signal(signal.SIGINT)  # SIGTERM: test_command.py

    config = SMALL.replace(racks=2, rollout=20, epochs=400, keep_checkpoints=2)
    with pytest.raises(KeyboardInterrupt):
        fit(config, Noted(notes), run, on_progress=press)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    state = run_state(run)
    assert state["epochs"] == 120
    assert not (run / POLICY_FILE).exists()
    first = (notes / "worker0").read_text()
    reports = fit(config, Noted(notes), run, resume=True)
    assert reports[0] == Progress(120, 400)
    assert reports[-1].epochs == run_state(run)["epochs"] == 400
    _, meta = load_policy(run / POLICY_FILE)
    assert meta["training"]["epochs"] == 400
    used = [int(line.split()[1]) for line in first.splitlines()]
    later = [int(line.split()[1]) for line in (notes / "worker0").read_text()[len(first) :].splitlines()]
    assert min(later) == 120 > max(used)
    with pytest.raises(ResultError, match="earlier training"):
        fit(config, Noted(notes), run)
    with pytest.raises(ResultError, match="resume with the configuration that made it"):
        fit(config.replace(hidden=(9,), epochs=800), Noted(notes), run, resume=True)
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert kept == ["checkpoint-000000000000360", "checkpoint-000000000000400"]
    (run / "checkpoints" / kept[1] / "run.json").write_text("{}")
    with pytest.raises(ResultError, match="delete it to resume from the one before"):
        fit(config, Noted(notes), run, resume=True)


def test_a_killed_env_runner_costs_what_was_in_flight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ncc.agents.rllib import ppo

    monkeypatch.setattr(ppo, "PROBE_S", 600.0)  # nobody else collects meanwhile: test_cluster.py
    notes, run = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    run.mkdir()
    config = SMALL.replace(env_runners=1, racks=2, rollout=20, epochs=400)
    reports = fit(config, Noted(notes, killed=True), run)
    assert (notes / "killed").exists()
    assert reports[-1].epochs == 400
    starts = [tuple(map(int, line.split())) for line in (notes / "worker0").read_text().splitlines()]
    assert len(set(starts)) == len(starts), "an episode was met twice"
    assert max(np.diff(sorted(episode for rack, episode in starts if rack == 0))) > 1, "it never started again"


def test_an_error_in_an_env_runner_is_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidRunError, match=r"env runner 0: the simulator gave up at 0\.25 s"):
        fit(SMALL, broken, tmp_path)
    assert not (tmp_path / POLICY_FILE).exists()


def test_an_env_runner_that_hangs_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ncc.agents.rllib import ppo, run

    for module in (ppo, run):
        monkeypatch.setattr(module, "SILENCE_S", 1.0)
    monkeypatch.setattr(run, "STOP_S", 0.5)
    goes_on = tmp_path / "goes_on"
    try:
        with pytest.raises(WorkerDiedError, match="no env runner has answered for 1 s"):
            fit(SMALL.replace(env_runners=1), Hanging(goes_on), tmp_path)
    finally:
        goes_on.touch()  # Ray does not end a process that hangs
    assert run_state(tmp_path)["epochs"] == 0
