# SPDX-License-Identifier: BSD-3-Clause
"""One training with RLlib in one folder: start or resume, iterate, write checkpoints and policies."""

import math
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.exceptions import RayError
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED

from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE, save_policy
from ncc.agents.progress import Meter
from ncc.agents.rllib.algorithms import SILENCE_S, algorithm_config
from ncc.agents.rllib.checkpoint import CheckpointFolder, RunState, check_shape
from ncc.agents.rllib.cluster import connected, held_stderr
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import EPISODES_PER_ROLLOUT, NEXT_EPISODE, RETURNS, TOLD
from ncc.agents.rllib.module import HostModule, policy_layers
from ncc.agents.rllib.offline import in_process, offline_algorithm
from ncc.agents.rllib.settings import EnvSettings
from ncc.core.errors import InvalidRunError, WorkerDiedError
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.signals import noted

SCALARS = {
    "policy_loss": "loss/policy",
    "mean_pi_loss": "loss/policy",
    "vf_loss": "loss/value",
    "mean_vf_loss": "loss/value",
    "total_loss": "loss/total",
    "entropy": "policy/entropy",
    "curr_entropy_coeff": "policy/entropy_coef",
    "vf_explained_var": "value/explained_variance",
    "vf_explained_variance": "value/explained_variance",
    "moving_avg_sqd_adv_norm": "value/squared_advantage",
    "gradients_default_optimizer_global_norm": "update/grad_norm",
    "default_optimizer_learning_rate": "update/learning_rate",
}
"""RLlib's names of the reported numbers, and A3C's. IMPALA's own vf_loss is a sum; its mean is computed later."""


def train(
    config: RllibConfig,
    make_env: EnvFactory,
    folder: Path,
    seed: int,
    *,
    resume: bool,
    report: Report,
    meta: Mapping[str, Any],
) -> Path:
    """Train; see `RllibLearner.train`."""
    checkpoints = CheckpointFolder(folder, config.keep_checkpoints)
    loaded: tuple[Path, RunState] | None = None
    if resume:
        loaded = checkpoints.load(config.algorithm, seed)
    else:
        checkpoints.must_be_empty()
    ray = in_process() if config.offline else connected(config.address, config.wheel, cpus=config.env_runners + 1)
    # Ray installs a SIGTERM handler that would abort this process; it is among those replaced.
    with ray, noted(signal.SIGINT, signal.SIGTERM) as interrupt:
        run = Run(Job(config, folder, seed, meta), make_env, checkpoints, loaded, interrupt)
        try:
            return run.learn(report)
        finally:
            run.algorithm.stop()


@dataclass(frozen=True)
class Job:
    """A training's configuration and its folder."""

    config: RllibConfig
    folder: Path
    seed: int
    meta: Mapping[str, Any]


class Run:
    """An algorithm of RLlib and the state that RLlib does not keep."""

    def __init__(
        self,
        job: Job,
        make_env: EnvFactory,
        checkpoints: CheckpointFolder,
        loaded: tuple[Path, RunState] | None,
        interrupt: threading.Event,
    ) -> None:
        config = job.config
        self._config, self._folder, self._seed, self._meta = config, job.folder, job.seed, job.meta
        self._checkpoints, self._interrupt = checkpoints, interrupt
        self.epochs, episodes = 0, (0,) * config.collectors
        if loaded is not None:
            self.epochs = loaded[1].epochs
            known = loaded[1].episodes
            episodes = (*known, *(0,) * config.collectors)[: config.collectors]
        self.algorithm: Any
        if config.offline:
            self.algorithm = offline_algorithm(config, make_env, job.meta, job.seed, episodes[0])
        else:
            settings = EnvSettings(make_env, job.seed, config.rollout or 1, 1 - config.gamma, episodes)
            try:
                with held_stderr():
                    self.algorithm = algorithm_config(config, settings).build_algo()
            except (IndexError, RayError) as error:  # RLlib asks the first env runner for its spaces
                raise WorkerDiedError(
                    f"no env runner started ({type(error).__name__}); its own message is above"
                ) from None
        self._module_id = next(iter(self.algorithm.learner_group._learner.module.keys()))
        self.algorithm.next_episodes = dict(enumerate(episodes))
        self.algorithm.episodes_per_rollout = 0
        module = self._module()
        if loaded is not None:
            check_shape(loaded[1], module.shape)
        self._save_policy(UNTRAINED_FILE, 0)
        if loaded is not None:
            self.algorithm.restore_from_path(str(loaded[0].resolve()))

    def learn(self, report: Report) -> Path:
        """Iterate until all epochs are used; return the path of the policy file."""
        meter = Meter(report, self.epochs, self._config.total_epochs)
        saved, heard_s = self.epochs, time.monotonic()
        if not self.epochs:
            self._save_checkpoint()
        while self.epochs < self._config.total_epochs:
            result = self.algorithm.train()
            found = result.get(ENV_RUNNER_RESULTS, {})
            epochs = _whole(found.get(NUM_ENV_STEPS_SAMPLED, 0))
            self.epochs += epochs
            for worker, episode in found.get(NEXT_EPISODE, {}).items():
                if math.isnan(episode):  # of an env runner that died and has not reported since
                    continue
                number = int(worker)
                self.algorithm.next_episodes[number] = max(self.algorithm.next_episodes[number], _whole(episode))
            most = _whole(found.get(EPISODES_PER_ROLLOUT, 0))
            self.algorithm.episodes_per_rollout = max(self.algorithm.episodes_per_rollout, most)
            if epochs:
                heard_s = time.monotonic()
                told = found.get(RETURNS)
                returns = [float(value) for value in told] if isinstance(told, list) else []
                meter.add(epochs, returns, self._scalars(result))
            elif time.monotonic() - heard_s > SILENCE_S:
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

    def _scalars(self, result: Mapping[str, Any]) -> dict[str, float]:
        """The learner's numbers.

        Raises:
            InvalidRunError: one of them is not finite.
        """
        told = result.get(LEARNER_RESULTS, {}).get(self._module_id, {})
        scalars = {ours: float(told[theirs]) for theirs, ours in SCALARS.items() if theirs in told}
        for name, value in scalars.items():
            if not math.isfinite(value) and name.startswith(("loss/", "update/grad")):
                raise InvalidRunError(f"{name} is {value} after {self.epochs} epochs; lower the learning rate")
        told = result.get(ENV_RUNNER_RESULTS, {}).get(TOLD, {})
        return scalars | {name: float(value) for name, value in told.items() if math.isfinite(value)}

    def _module(self) -> HostModule:
        """The network that learns."""
        module: HostModule = self.algorithm.learner_group._learner.module[self._module_id].unwrapped()
        return module

    def _save_policy(self, name: str, epochs: int) -> Path:
        path = self._folder / name
        training = {
            "learner": "rllib",
            "algorithm": self._config.algorithm,
            "form": self._config.form,
            "seed": self._seed,
            "epochs": epochs,
        }
        save_policy(path, policy_layers(self._module()), {**self._meta, "training": training})
        return path

    def _save_checkpoint(self) -> Path:
        episodes = tuple(self.algorithm.next_episodes[worker] for worker in range(self._config.collectors))
        shape = str(self._module().shape)
        state = RunState(self._config.algorithm, self._seed, shape, self.epochs, episodes)
        return self._checkpoints.save(self.algorithm, state)


def _whole(told: float) -> int:
    """A count from RLlib as an int; NaN, where an iteration counted nothing, becomes 0."""
    return 0 if math.isnan(told) else int(told)
