# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's MARWIL (Wang et al., NeurIPS 2018) and BC on recordings in memory; loss and optimiser are RLlib's.

RLlib's own way to read data, ray.data, starts actors, stores blocks as objects, and decodes and buffers episodes, for
data that is tens of MB and read in a second; on two cores those actors slow down the learner.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.marwil.marwil import MARWIL, MARWILConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

from ncc.agents.a3c.returns import advantages
from ncc.agents.a3c.run import one_thread
from ncc.agents.rllib.algorithms import set_up
from ncc.agents.rllib.batches import values_of
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import NEXT_EPISODE, host_spaces
from ncc.agents.rllib.learners import MarwilLearner, network
from ncc.agents.rllib.module import HostModule
from ncc.core.seeding import generator
from ncc.harness.batch import EnvFactory
from ncc.harness.episodes import Episode, episodes_digest, read_episodes, require_seen_as

ADVANTAGE_RATE = 0.01
"""Rate per minibatch of the moving mean of squared advantages; RLlib's default, 1e-8, leaves it at its start."""
VALUE_ERROR = 0.1
"""Typical error of an untrained value, in units of the mean reward per epoch, so that no first advantage is certain."""


@contextmanager
def in_process() -> Iterator[None]:
    """Set up for a learner without env runners: start no Ray, and hide RLlib's hints to developers.

    PyTorch gets one thread inside: networks this small gain nothing from more, and equal seeds then give equal weights.
    """
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with one_thread():
            yield
    finally:
        logger.setLevel(level)


class Recorded:
    """Recorded episodes in an endless sequence, in another order in each pass.

    Equal seeds and positions give equal sequences.

    Args:
        episodes: the recorded episodes.
        seed: determines the order.
        gamma: discount per epoch; rewards are scaled by 1 - gamma, as elsewhere.
        gae_lambda: of the estimated returns.
        position: episodes taken so far, for a resumed training.
    """

    def __init__(
        self, episodes: Sequence[Episode], seed: int, gamma: float, gae_lambda: float, position: int = 0
    ) -> None:
        self._episodes, self._seed, self.position = episodes, seed, position
        self._gamma, self._gae_lambda = gamma, gae_lambda
        self.digest = episodes_digest(episodes)
        passes, begun = divmod(position, len(episodes))
        self.taken_epochs = passes * sum(len(episode.actions) for episode in episodes)
        self.taken_epochs += sum(len(episodes[i].actions) for i in self._order(passes)[:begun])

    def take(self, epochs: int) -> list[Episode]:
        """Take the next whole episodes, until they have at least this many epochs."""
        taken, upto = [], self.taken_epochs + epochs
        while self.taken_epochs < upto:
            number, at = divmod(self.position, len(self._episodes))
            taken.append(self._episodes[self._order(number)[at]])
            self.position += 1
            self.taken_epochs += len(taken[-1].actions)
        return taken

    def batch(self, episodes: Sequence[Episode], module: HostModule) -> SampleBatch:
        """Shuffled samples of all hosts of these episodes; estimated returns go on where time was up."""
        rows: dict[str, list[Any]] = {
            Columns.OBS: [episode.obs[:-1].reshape(-1, episode.info.obs_dim) for episode in episodes],
            Columns.ACTIONS: [episode.actions.reshape(-1) for episode in episodes],
            Postprocessing.VALUE_TARGETS: [
                self._returns(episode, values_of(module, episode.obs)).reshape(-1) for episode in episodes
            ],
        }
        columns = {name: np.concatenate(arrays) for name, arrays in rows.items()}
        rng = generator(self._seed, "rllib", "offline", "mix", self.position)
        order = rng.permutation(len(columns[Columns.ACTIONS]))
        return SampleBatch({name: array[order] for name, array in columns.items()})

    def mean_square_return(self) -> float:
        """Mean square of discounted sums of scaled rewards: that of the advantages while the value is 0."""
        sums = [self._returns(episode, np.zeros(episode.obs.shape[:2], np.float32)) for episode in self._episodes]
        return float(np.square(np.concatenate([array.ravel() for array in sums])).mean())

    def _returns(self, episode: Episode, values: Any) -> Any:
        """Estimated returns [T, hosts] from values [T + 1, hosts] of all observations."""
        terminated = np.zeros((len(episode.actions), 1), np.bool_)
        terminated[-1] = episode.terminated
        _, returns = advantages(
            (episode.reward * np.float32(1 - self._gamma))[:, None],
            values[:-1, None],
            values[1:, None],
            terminated=terminated,
            truncated=np.zeros_like(terminated),
            gamma=self._gamma,
            gae_lambda=self._gae_lambda,
        )
        return returns[:, 0]

    def _order(self, number: int) -> list[int]:
        """Order of the episodes in that pass."""
        order: list[int] = (
            generator(self._seed, "rllib", "offline", "order", number).permutation(len(self._episodes)).tolist()
        )
        return order


class MarwilFromMemory(MARWIL):
    """MARWIL that reads `recorded` instead of a ray.data dataset; with beta 0 it is BC."""

    recorded: Recorded
    update_epochs: int

    def training_step(self: Any) -> None:
        """Make one update over whole episodes, each used once, and count them as env runners would."""
        recorded, before = self.recorded, self.recorded.taken_epochs
        samples = recorded.batch(recorded.take(self.update_epochs), network(self))
        epochs, log = recorded.taken_epochs - before, self.metrics.log_value
        log((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED), epochs, reduce="sum")
        log((ENV_RUNNER_RESULTS, NEXT_EPISODE, "0"), recorded.position, reduce="max", window=1)
        results = self.learner_group.update(
            training_data=TrainingData(batch=MultiAgentBatch({DEFAULT_MODULE_ID: samples}, env_steps=epochs)),
            minibatch_size=self.config.minibatch_size,
            num_epochs=1,
            timesteps={NUM_ENV_STEPS_SAMPLED_LIFETIME: recorded.taken_epochs},
        )
        self.metrics.aggregate(results, key=LEARNER_RESULTS)


def offline_algorithm(config: RllibConfig, make_env: EnvFactory, meta: Mapping[str, Any], seed: int, taken: int) -> Any:
    """Make RLlib's algorithm, ready to train.

    Args:
        config: with `rollout`, the recorded epochs of an update.
        make_env: makes the environment that the policy is for, of which only the sizes are used.
        meta: with `observation`, `action` and, for marwil, `reward`, as recordings must have been made.
        seed: determines weights and order.
        taken: episodes that earlier updates have used.

    Raises:
        ConfigError, ResultError: recordings that cannot be read or do not fit (`ncc.harness.episodes`).
    """
    env = make_env(0)
    spaces, sizes = host_spaces(env), (env.obs_dim, env.n_actions)
    env.close()
    episodes = read_episodes(config.episodes or ())
    marwil = config.algorithm == "marwil"
    require_seen_as(episodes, meta, *sizes, paid=marwil)
    recorded = Recorded(episodes, seed, config.gamma, config.gae_lambda, taken)
    made = set_up(MARWILConfig(MarwilFromMemory), config, seed)
    made.environment(observation_space=spaces[0], action_space=spaces[1])
    made.env_runners(num_env_runners=0, create_local_env_runner=False)
    made.offline_data(input_=["recorded"], offline_data_class=_no_dataset)
    made.training(
        learner_class=MarwilLearner,
        beta=config.beta if marwil else 0.0,
        minibatch_size=config.minibatch,
        vf_coeff=config.value_coef,
        moving_average_sqd_adv_norm_update_rate=ADVANTAGE_RATE,
        moving_average_sqd_adv_norm_start=recorded.mean_square_return() + VALUE_ERROR**2,
    )
    algorithm: Any = made.build_algo()
    algorithm.recorded, algorithm.update_epochs = recorded, config.rollout or 1
    return algorithm


def _no_dataset(_config: AlgorithmConfig) -> None:
    """Stand in for RLlib's `OfflineData`, which would read a dataset."""
