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
from pathlib import Path
from threading import Event
from typing import Any

from ray.exceptions import RayError
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS, NUM_ENV_STEPS_SAMPLED

from ncc.agents.a3c.run import one_thread
from ncc.agents.checkpoints import Checkpoints, check_same, damaged, replacing_folder
from ncc.agents.policy import POLICY_FILE, UNTRAINED_FILE
from ncc.agents.progress import Meter
from ncc.agents.rllib.cluster import connected
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env import NETWORK_METRICS, RETURNS, EnvSettings
from ncc.agents.rllib.module import policy_layers
from ncc.agents.rllib.ppo import SILENCE_S, algorithm_config, network
from ncc.core.errors import InvalidRunError, WorkerDiedError
from ncc.harness.batch import EnvFactory
from ncc.harness.learner import Report
from ncc.harness.signals import noted

RUN = "run.json"
STOP_S = 5.0
"""Seconds that env runners get to close their environments; Ray ends those that hang."""
SCALARS = {
    "policy_loss": "loss/policy",
    "vf_loss": "loss/value",
    "total_loss": "loss/total",
    "entropy": "policy/entropy",
    "curr_entropy_coeff": "policy/entropy_coef",
    "vf_explained_var": "value/explained_variance",
    "gradients_default_optimizer_global_norm": "update/grad_norm",
    "default_optimizer_learning_rate": "update/learning_rate",
}
"""RLlib's names of the numbers that are reported, and the names under which A3C reports the same numbers."""


def train(config: RllibConfig, make_env: EnvFactory, checkpoints: Checkpoints, report: Report, *, resume: bool) -> Path:
    """Train; see `RllibConfig.fit`."""
    loaded, state = checkpoints.begin(resume=resume), {"epochs": 0}
    if loaded is not None:
        try:
            state = json.loads((loaded / RUN).read_bytes())
            check_same(loaded, state["made_by"], checkpoints.made_by)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise damaged(loaded, error) from None
    ray = connected(config.address, cpus=config.env_runners + 1)
    # Ray installs a SIGTERM handler that would abort this process; `noted` replaces it.
    # With more threads than idle cores, small networks are many times slower.
    with ray, one_thread(), noted(signal.SIGINT, signal.SIGTERM) as interrupt:
        run = Run(config, make_env, checkpoints, int(state["epochs"]))
        try:
            if loaded is not None:
                check_same(loaded, f"networks of {state['shape']}", f"networks of {run.shape}")
                run.algorithm.restore_from_path(str(loaded.resolve()))
            return run.learn(report, interrupt)
        finally:
            run.stop()


class Run:
    """An algorithm of RLlib, and the number of periods that it has learnt from."""

    def __init__(self, config: RllibConfig, make_env: EnvFactory, checkpoints: Checkpoints, epochs: int) -> None:
        self._config, self._checkpoints, self.epochs = config, checkpoints, epochs
        # Every episode has at least one period, so no earlier run has played an episode of this number.
        settings = EnvSettings(make_env, config.rollout or 1, epochs)
        try:
            self.algorithm: Any = algorithm_config(config, settings, checkpoints.made_by["seed"]).build_algo()
        except (IndexError, RayError) as error:  # RLlib asks the first env runner for its spaces
            raise WorkerDiedError(f"no env runner started ({type(error).__name__}); its own message is above") from None
        shutil.rmtree(self.algorithm.logdir)  # in ~/ray_results; nothing writes there
        self.shape = str(network(self.algorithm).shape)
        self._save_policy(UNTRAINED_FILE)

    def learn(self, report: Report, interrupt: Event) -> Path:
        """Iterate until all periods are used; return the path of the policy file."""
        config = self._config
        meter = Meter(report, self.epochs, config.epochs)
        saved, last_answer_s = self.epochs, time.monotonic()
        if not self.epochs:
            self._save_checkpoint()
        while self.epochs < config.epochs:
            result = self.algorithm.train()
            sampled = result.get(ENV_RUNNER_RESULTS, {})
            steps = sampled.get(NUM_ENV_STEPS_SAMPLED, 0)  # NaN if nobody counted
            ends: BaseException | None = None
            if epochs := 0 if math.isnan(steps) else int(steps) * (config.racks or 1):
                self.epochs, last_answer_s = self.epochs + epochs, time.monotonic()
                returns = sampled.get(RETURNS, [])  # RLlib unpacks a list of one
                meter.add(epochs, returns if isinstance(returns, list) else [returns], self._scalars(result))
            elif time.monotonic() - last_answer_s > SILENCE_S:
                ends = WorkerDiedError(f"no env runner has answered for {SILENCE_S:.0f} s")
            if interrupt.is_set():
                ends = KeyboardInterrupt()
            if ends or self.epochs - saved >= config.checkpoint_epochs or self.epochs >= config.epochs:
                meter.flush()  # report now, because a resumed run does not repeat it
                self._save_checkpoint()
                saved = self.epochs
            if ends:
                raise ends
        return self._save_policy(POLICY_FILE)

    def stop(self) -> None:
        """Close environments and end the learner; `Algorithm.stop` would wait for env runners that hang."""
        self.algorithm.env_runner_group.foreach_env_runner(_stop, healthy_only=False, timeout_seconds=STOP_S)
        self.algorithm.learner_group.shutdown()

    def _scalars(self, result: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers of the learner and of the networks by our names.

        Raises:
            InvalidRunError: a loss or the norm of a gradient is not finite.
        """
        losses = result.get(LEARNER_RESULTS, {}).get(DEFAULT_MODULE_ID, {})
        scalars = {name: float(losses[rllib_name]) for rllib_name, name in SCALARS.items() if rllib_name in losses}
        for name, value in scalars.items():
            if not math.isfinite(value) and name.startswith(("loss/", "update/grad")):
                raise InvalidRunError(f"{name} is {value} after {self.epochs} epochs; lower the learning rate")
        network_metrics = result.get(ENV_RUNNER_RESULTS, {}).get(NETWORK_METRICS, {})
        return scalars | {name: float(value) for name, value in network_metrics.items() if math.isfinite(value)}

    def _save_policy(self, name: str) -> Path:
        epochs = 0 if name == UNTRAINED_FILE else self.epochs
        return self._checkpoints.save_policy(name, policy_layers(network(self.algorithm)), epochs)

    def _save_checkpoint(self) -> None:
        """Write a checkpoint; earlier ones survive its errors."""
        state = {"made_by": dict(self._checkpoints.made_by), "shape": self.shape, "epochs": self.epochs}

        def write(path: Path) -> None:
            with replacing_folder(path) as folder:
                self.algorithm.save_to_path(str(folder.resolve()))
                (folder / RUN).write_text(json.dumps(state) + "\n")

        self._checkpoints.add(self.epochs, policy_layers(network(self.algorithm)), write)


def _stop(env_runner: Any) -> None:
    env_runner.stop()
