# SPDX-License-Identifier: BSD-3-Clause
"""A3C with real processes: it learns, counts exactly, survives Ctrl-C and dead workers, and leaves nobody behind."""

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.a3c.run import Checkpoint, TrainingRun
from ncc.agents.checkpoints import Checkpoints
from ncc.agents.policy import POLICY_FILE, load_policy
from ncc.core.errors import WorkerDiedError
from ncc.harness.learner import Progress
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity, Killing, broken

CONFIG = A3cConfig(mode="async", workers=2, epochs=8_001, rollout=10, gamma=0.0, learning_rate=5e-3, hidden=(16,))


def newest(folder: Path) -> Checkpoint:
    made_by = {"learner": "a3c", "mode": "async", "seed": 1}
    loaded = TrainingRun(CONFIG, Checkpoints(folder, 3, made_by, {}), resume=True).loaded
    assert loaded is not None
    return loaded


def test_a_killed_worker_is_named_and_the_run_that_goes_on_learns_and_counts_exactly(tmp_path: Path) -> None:
    factory, config = Killing(tmp_path / "marker"), CONFIG.replace(workers=1, checkpoint_epochs=2000)
    with pytest.raises(WorkerDiedError, match=r"worker 0: the worker process \d+ was killed by SIGKILL") as e:
        fit(config, factory, tmp_path)
    assert "resume this run" in str(e.value)
    assert multiprocessing.active_children() == []
    assert not (tmp_path / POLICY_FILE).exists()
    saved = newest(tmp_path)
    assert 0 < saved.state.epochs < CONFIG.epochs
    assert saved.header.episode == saved.state.epochs, "an episode that nobody met"
    reports = fit(config, factory, tmp_path, resume=True)
    # It first says where it resumes, then goes on from there.
    assert (reports[0].epochs, reports[0].returns) == (saved.state.epochs, ())
    assert reports[1].epochs > saved.state.epochs
    # Rounded up to a whole step of two racks; what was reported equals what was learnt from.
    policy, meta = load_policy(tmp_path / POLICY_FILE)
    done = newest(tmp_path)
    assert reports[-1].total_epochs == 8_001
    assert reports[-1].epochs == meta["training"]["epochs"] == done.state.epochs == 8_002
    assert done.state.updates > saved.state.updates
    assert sum(len(report.returns) for report in reports) >= (8_002 - saved.state.epochs) // 50 - 2 * 4
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3
    assert multiprocessing.active_children() == []
    assert policy.act(np.eye(4, dtype=np.float32), None).tolist() == [0, 1, 2, 3]
    rng = np.random.default_rng(5)
    hits = policy.act(np.tile(np.eye(4, dtype=np.float32), (1000, 1)), rng) == np.tile(np.arange(4), 1000)
    assert hits.mean() > 0.9


def test_interrupt_leaves_a_checkpoint_of_that_moment(tmp_path: Path) -> None:
    epochs: list[int] = []

    def interrupt(progress: Progress) -> None:
        if progress.epochs:  # the first only says where training starts
            epochs.append(progress.epochs)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(CONFIG.replace(workers=1, epochs=10**9), Identity(), tmp_path, on_progress=interrupt)
    assert multiprocessing.active_children() == []
    assert newest(tmp_path).state.epochs >= epochs[0] > 0


def test_an_error_in_a_worker_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkerDiedError, match=r"worker 0: the simulator gave up at 0\.25 s; resume this run"):
        fit(CONFIG.replace(workers=1), broken, tmp_path)
    assert newest(tmp_path).state.epochs == 0
