# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's MARWIL (Wang et al., NeurIPS 2018) and BC on data in memory; loss, optimiser and connectors are RLlib's."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.bc.bc import BC, BCConfig
from ray.rllib.algorithms.marwil.marwil import MARWIL, MARWILConfig
from ray.rllib.algorithms.marwil.torch.marwil_torch_learner import MARWILTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

from ncc.agents.rllib.algorithms import Homeless, schedule
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import NEXT_EPISODE, host_spaces
from ncc.agents.rllib.module import HostModule
from ncc.agents.rllib.optimizers import SameAdam
from ncc.agents.rllib.recorded import Recorded
from ncc.core.errors import ConfigError
from ncc.core.seeding import derive_seed
from ncc.harness.batch import EnvFactory
from ncc.harness.episodes import read_episodes, require_seen_as

ADVANTAGE_RATE = 0.01
"""Rate per minibatch of the moving mean of squared advantages; RLlib's default, 1e-8, leaves it at its start."""
VALUE_ERROR = 0.1
"""Typical error of an untrained value, in units of the mean reward per epoch, so that no first advantage is certain."""
RECORDINGS = "recordings.sha256"
"""File in a checkpoint with the digest of the recordings, beside RLlib's own files."""
_SCALE = "ncc_squared_advantage"


@contextmanager
def in_process() -> Iterator[None]:
    """Set up for a learner without env runners: start no Ray, and hide RLlib's hints to developers.

    PyTorch gets one thread inside: networks this small gain nothing from more, and equal seeds then give equal weights.
    """
    loggers = [logging.getLogger(name) for name in ("ray", "ray.rllib")]
    before, threads = [logger.level for logger in loggers], torch.get_num_threads()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


class MarwilLearner(SameAdam, MARWILTorchLearner):
    """RLlib's learner, with the moving mean of squared advantages added to its checkpoints."""

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """RLlib's state, and the moving means by module."""
        state: dict[str, Any] = super().get_state(*args, **kwargs)
        state[_SCALE] = {name: float(value) for name, value in self.moving_avg_sqd_adv_norms_per_module.items()}
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state from `get_state`."""
        super().set_state(state)
        for name, value in state.get(_SCALE, {}).items():
            self.moving_avg_sqd_adv_norms_per_module[name] = self._get_tensor_variable(value)


class Mixed(ConnectorV2):
    """The last connector of the learner pipeline: drops the steps that RLlib added for bootstrapping, and shuffles.

    RLlib itself would cut minibatches out of one episode after another.
    """

    def __call__(self, *, batch: dict[str, Any], episodes: list[Any], **_: Any) -> dict[str, Any]:
        seed = int(episodes[0].id_.split("_")[1])  # so that a resumed training shuffles in the same way
        for columns in batch.values():
            rows = torch.arange(len(columns[Columns.OBS]))
            if Columns.LOSS_MASK in columns:
                rows = rows[columns[Columns.LOSS_MASK]]
            rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]
            for name in list(columns):
                columns[name] = columns[name][rows]
        return batch


class _Mixing:
    def build_learner_connector(self, *args: Any, **kwargs: Any) -> Any:
        """RLlib's connector pipeline, with `Mixed` at the end."""
        pipeline = super().build_learner_connector(*args, **kwargs)  # type: ignore[misc]
        pipeline.append(Mixed())
        return pipeline


class MixingMarwilConfig(_Mixing, MARWILConfig):
    """MARWIL's configuration with `Mixed`."""


class MixingBcConfig(_Mixing, BCConfig):
    """BC's configuration with `Mixed`."""


class FromMemory(Homeless):
    """An offline algorithm that reads `recorded` instead of a ray.data dataset."""

    recorded: Recorded
    update_epochs: int

    def training_step(self: Any) -> None:
        """Make one update over whole episodes of hosts, each used once, and count them as env runners would."""
        before = self.recorded.taken_epochs
        episodes = self.recorded.take(self.update_epochs)
        after = self.recorded.taken_epochs
        log = self.metrics.log_value
        log((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED), after - before, reduce="sum")
        log((ENV_RUNNER_RESULTS, NEXT_EPISODE, "0"), self.recorded.position, reduce="max", window=1)
        results = self.learner_group.update(
            training_data=TrainingData(episodes=episodes),
            minibatch_size=self.config.minibatch_size,
            num_epochs=1,
            timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: after},
        )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)

    def save_to_path(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Save as RLlib does, with the digest of the recordings."""
        saved = super().save_to_path(path, *args, **kwargs)  # type: ignore[misc]
        (Path(path) / RECORDINGS).write_text(self.recorded.digest + "\n")
        return saved

    def restore_from_path(self: Any, path: Any, *args: Any, **kwargs: Any) -> None:
        """Restore as RLlib does, but without sending weights to env runners, which do not exist.

        Raises:
            ConfigError: the recordings differ from those that the checkpoint learnt from.
        """
        told = Path(path) / RECORDINGS
        if not told.is_file() or told.read_text().strip() != self.recorded.digest:
            raise ConfigError(
                f"{path} has learnt from other recordings than agent.episodes names now; put back those that it began "
                "with, or train anew with another out="
            )
        Checkpointable.restore_from_path(self, path, *args, **kwargs)

    def cleanup(self: Any) -> None:
        """Stop as RLlib does: there are no env runners to wait for."""
        super(Homeless, self).cleanup()  # type: ignore[misc]


class FromMemoryMarwil(FromMemory, MARWIL):
    """MARWIL on recordings in memory."""


class FromMemoryBc(FromMemory, BC):
    """BC on recordings in memory."""


class _Nothing:
    """An empty stand-in for RLlib's `OfflineData`, which would read the dataset."""

    def __init__(self, config: AlgorithmConfig) -> None:
        pass


def offline_algorithm(config: RllibConfig, make_env: EnvFactory, meta: Mapping[str, Any], seed: int, taken: int) -> Any:
    """Make RLlib's algorithm, ready to train.

    Args:
        config: with `rollout`, the recorded epochs of an update.
        make_env: makes the environment that the policy is for, of which only the sizes are used.
        meta: with `observation`, `action` and, for marwil, `reward`, as recordings must have been made.
        seed: determines weights and order.
        taken: host episodes that earlier updates have used.

    Raises:
        ConfigError, ResultError: recordings that cannot be read or do not fit (`ncc.harness.episodes`).
    """
    env = make_env(0)
    spaces, sizes = host_spaces(env), (env.obs_dim, env.n_actions)
    env.close()
    episodes = read_episodes(config.episodes or ())
    marwil = config.algorithm == "marwil"
    require_seen_as(episodes, meta, *sizes, paid=marwil)
    recorded = Recorded(episodes, seed, 1 - config.gamma, taken)
    made = MixingMarwilConfig(FromMemoryMarwil) if marwil else MixingBcConfig(FromMemoryBc)
    made.framework("torch")
    made.environment(observation_space=spaces[0], action_space=spaces[1])
    made.env_runners(num_env_runners=0, create_local_env_runner=False)
    made.learners(num_learners=0, num_gpus_per_learner=0, learner_class=MarwilLearner)
    made.offline_data(input_=["recorded"], offline_data_class=_Nothing, dataset_num_iters_per_learner=1)
    made.debugging(seed=derive_seed(seed, "rllib") % 2**31, log_level="ERROR")
    made.reporting(min_time_s_per_iteration=None)
    made.experimental(_validate_config=False)
    made.rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=HostModule,
            model_config={
                "hidden": config.hidden,
                "seed": derive_seed(seed, "a3c", "init"),
                "unlimited_prob": config.initial_unlimited_prob,
            },
        )
    )
    made.training(
        beta=config.beta if marwil else 0.0,
        gamma=config.gamma,
        lr=schedule(config.learning_rate, config.learning_rate_final, config.epochs),
        grad_clip=config.max_grad_norm,
        grad_clip_by="global_norm",
        minibatch_size=config.minibatch,
        vf_coeff=config.value_coef,
        moving_average_sqd_adv_norm_update_rate=ADVANTAGE_RATE,
        moving_average_sqd_adv_norm_start=recorded.mean_square_return(config.gamma) + VALUE_ERROR**2,
    )
    made.lambda_ = config.gae_lambda  # not an argument of `training`
    algorithm: Any = made.build_algo()
    algorithm.recorded, algorithm.update_epochs = recorded, config.rollout or 1
    return algorithm
