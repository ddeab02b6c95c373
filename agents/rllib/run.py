# SPDX-License-Identifier: BSD-3-Clause
"""One training with RLlib in one folder: start or resume, iterate, write checkpoints and policies.

A checkpoint is a folder with RLlib's own files, and `run.json` with the state that RLlib does not store.
"""

import json
import math
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from ray.exceptions import RayError
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED

from ncc.agents.a3c.run import one_thread
from ncc.agents.checkpoints import Checkpoints, check_made_with, check_networks, replacing_folder
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, save_policy
from ncc.agents.progress import Meter
from ncc.agents.rllib.algorithms import SILENCE_S, algorithm_config
from ncc.agents.rllib.cluster import connected
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import NETWORK_METRICS, NEXT_EPISODE, RETURNS, EnvSettings
from ncc.agents.rllib.learners import network
from ncc.agents.rllib.module import policy_layers
from ncc.core.errors import InvalidRunError, ResultError, WorkerDiedError
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.signals import noted

KIND = "ncc-rllib-checkpoint"
VERSION = 1
RUN = "run.json"
STOP_S = 5.0
"""Seconds that env runners get to close their environments; Ray ends those that hang."""
SCALARS = {
    "policy_loss": "loss/policy",
    "mean_pi_loss": "loss/policy",
    "vf_loss": "loss/value",
    "mean_vf_loss": "loss/value",
    "total_loss": "loss/total",
    "entropy": "policy/entropy",
    "curr_entropy_coeff": "policy/entropy_coef",
    "vf_explained_var": "value/explained_variance",
    "gradients_default_optimizer_global_norm": "update/grad_norm",
    "default_optimizer_learning_rate": "update/learning_rate",
}
"""RLlib's names of the reported numbers, and A3C's. IMPALA's own vf_loss is a sum; its mean is computed later."""


@dataclass(frozen=True)
class RunState:
    """State of a training that RLlib does not store."""

    algorithm: str
    seed: int
    shape: str
    """Text form of the `NetShape`."""
    epochs: int
    episodes: tuple[int, ...]
    """Next episode number of each env runner."""


class CheckpointFolder(Checkpoints):
    """The checkpoints of one run, one folder each."""

    def save(self, algorithm: Any, state: RunState) -> Path:
        """Write a checkpoint, then delete the oldest beyond those that are kept.

        Raises:
            ResultError: the file system refused; earlier checkpoints are untouched.
        """

        def write(path: Path) -> None:
            with replacing_folder(path) as folder:
                algorithm.save_to_path(str(folder.resolve()))
                text = json.dumps({"kind": KIND, "version": VERSION, **asdict(state)}, indent=1)
                (folder / RUN).write_text(text + "\n")

        return self.add(state.epochs, write)

    def load(self, algorithm: str, seed: int) -> tuple[Path, RunState]:
        """Find the newest checkpoint; return its path and its state.

        Raises:
            ResultError: none there, damaged, or made with another algorithm or seed.
        """
        path = self.newest()
        try:
            plain = json.loads((path / RUN).read_bytes())
            if (plain.pop("kind"), plain.pop("version")) != (KIND, VERSION):
                raise ValueError(f"not version {VERSION} of {KIND}")
            state = RunState(**{**plain, "episodes": tuple(int(number) for number in plain["episodes"])})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResultError(
                f"the checkpoint {path} is damaged ({error}); delete it to resume from the one before"
            ) from None
        check_made_with(path, ("algorithm", state.algorithm, algorithm), ("seed", state.seed, seed))
        return path, state


@dataclass(frozen=True)
class Job:
    """A training's configuration and its folder."""

    config: RllibConfig
    make_env: EnvFactory
    folder: Path
    seed: int
    meta: Mapping[str, Any]


def train(job: Job, report: Report, *, resume: bool) -> Path:
    """Train; see `RllibLearner.train`."""
    config = job.config
    checkpoints = CheckpointFolder(job.folder, config.keep_checkpoints)
    loaded: tuple[Path, RunState] | None = None
    if resume:
        loaded = checkpoints.load(config.algorithm, job.seed)
    else:
        checkpoints.must_be_empty()
    ray = connected(config.address, config.wheel, cpus=config.env_runners + 1)
    # Ray installs a SIGTERM handler that would abort this process; `noted` replaces it.
    # With more threads than idle cores, small networks are many times slower.
    with ray, one_thread(), noted(signal.SIGINT, signal.SIGTERM) as interrupt:
        run = Run(job, checkpoints, loaded, interrupt)
        try:
            return run.learn(report)
        finally:
            run.stop()


class Run:
    """An algorithm of RLlib and the state that RLlib does not keep."""

    def __init__(
        self, job: Job, checkpoints: CheckpointFolder, loaded: tuple[Path, RunState] | None, interrupt: Event
    ) -> None:
        self._job, self._config, self._checkpoints, self._interrupt = job, job.config, checkpoints, interrupt
        collectors = self._config.collectors
        self.epochs, episodes = 0, (0,) * collectors
        if loaded is not None:
            self.epochs, episodes = loaded[1].epochs, (*loaded[1].episodes, *episodes)[:collectors]
        self.algorithm: Any = self._build(episodes)
        shutil.rmtree(self.algorithm.logdir)  # in ~/ray_results; nothing writes there
        self.algorithm.next_episodes = dict(enumerate(episodes))
        if loaded is not None:
            check_networks(loaded[1].shape, str(network(self.algorithm).shape))
        self._save_policy(UNTRAINED_FILE, 0)
        if loaded is not None:
            self.algorithm.restore_from_path(str(loaded[0].resolve()))

    def _build(self, episodes: tuple[int, ...]) -> Any:
        job, config = self._job, self._config
        settings = EnvSettings(job.make_env, job.seed, config.rollout or 1, 1 - config.gamma, episodes)
        try:
            return algorithm_config(config, settings).build_algo()
        except (IndexError, RayError) as error:  # RLlib asks the first env runner for its spaces
            raise WorkerDiedError(f"no env runner started ({type(error).__name__}); its own message is above") from None

    def learn(self, report: Report) -> Path:
        """Iterate until all periods are used; return the path of the policy file."""
        meter = Meter(report, self.epochs, self._config.epochs)
        saved, last_answer_s = self.epochs, time.monotonic()
        if not self.epochs:
            self._save_checkpoint()
        while self.epochs < self._config.epochs:
            result = self.algorithm.train()
            sampled = result.get(ENV_RUNNER_RESULTS, {})
            epochs = _whole(sampled.get(NUM_ENV_STEPS_SAMPLED, 0))
            self.epochs += epochs
            next_episodes = self.algorithm.next_episodes
            for worker, episode in sampled.get(NEXT_EPISODE, {}).items():
                next_episodes[int(worker)] = max(next_episodes[int(worker)], _whole(episode))
            if epochs:
                last_answer_s = time.monotonic()
                returns = sampled.get(RETURNS, [])  # RLlib unpacks a list of one
                meter.add(epochs, returns if isinstance(returns, list) else [returns], self._scalars(result))
            elif time.monotonic() - last_answer_s > SILENCE_S:
                meter.flush()
                self._save_checkpoint()
                raise WorkerDiedError(f"no env runner has answered for {SILENCE_S:.0f} s")
            if self._interrupt.is_set():
                meter.flush()
                self._save_checkpoint()
                raise KeyboardInterrupt
            if self.epochs - saved >= self._config.checkpoint_epochs:
                meter.flush()  # report now, because a resumed run does not repeat it
                self._save_checkpoint()
                saved = self.epochs
        meter.flush()
        self._save_checkpoint()
        return self._save_policy(POLICY_FILE, self.epochs)

    def stop(self) -> None:
        """Close environments and end the learner; `Algorithm.stop` would wait for env runners that hang."""
        self.algorithm.env_runner_group.foreach_env_runner(_stop, healthy_only=False, timeout_seconds=STOP_S)
        self.algorithm.learner_group.shutdown()

    def _scalars(self, result: Mapping[str, Any]) -> dict[str, float]:
        """The learner's numbers.

        Raises:
            InvalidRunError: one of them is not finite.
        """
        losses = result.get(LEARNER_RESULTS, {}).get(DEFAULT_MODULE_ID, {})
        scalars = {name: float(losses[rllib_name]) for rllib_name, name in SCALARS.items() if rllib_name in losses}
        for name, value in scalars.items():
            if not math.isfinite(value) and name.startswith(("loss/", "update/grad")):
                raise InvalidRunError(f"{name} is {value} after {self.epochs} epochs; lower the learning rate")
        network_metrics = result.get(ENV_RUNNER_RESULTS, {}).get(NETWORK_METRICS, {})
        return scalars | {name: float(value) for name, value in network_metrics.items() if math.isfinite(value)}

    def _save_policy(self, name: str, epochs: int) -> Path:
        path, config = self._job.folder / name, self._config
        training = {"learner": "rllib", "algorithm": config.algorithm, "seed": self._job.seed}
        meta = {**self._job.meta, "training": {**training, "epochs": epochs}}
        save_policy(path, policy_layers(network(self.algorithm)), meta)
        return path

    def _save_checkpoint(self) -> Path:
        episodes = tuple(self.algorithm.next_episodes[worker] for worker in range(self._config.collectors))
        shape = str(network(self.algorithm).shape)
        state = RunState(self._config.algorithm, self._job.seed, shape, self.epochs, episodes)
        return self._checkpoints.save(self.algorithm, state)


def _stop(env_runner: Any) -> None:
    env_runner.stop()


def _whole(count: float) -> int:
    """A count from RLlib as an int; NaN, of an iteration or env runner that counted nothing, becomes 0."""
    return 0 if math.isnan(count) else int(count)
