# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's PPO for hosts: batches of their samples, A3C's Adam, and our settings in RLlib's form."""

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium.spaces import Space
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing

from ncc.agents.a3c.rollout import Float, Rollout, require_finite
from ncc.agents.a3c.run import BETA1, BETA2, EPS
from ncc.agents.a3c.update import normalized, returns_of
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env import PERIOD, EnvCallbacks, EnvSettings, RolloutEnv
from ncc.agents.rllib.module import HostModule
from ncc.agents.settings import CLIP
from ncc.core.errors import InvalidRunError
from ncc.core.seeding import derive_seed
from ncc.harness.batch import ObsArray

SILENCE_S = 120.0
"""Seconds without an answer from any env runner before the training counts as dead; a restart takes some seconds."""
PROBE_S = 0.2
"""Seconds that RLlib waits before each update for an answer of lost env runners; the others are idle meanwhile."""
NEVER = 10_000
"""Restarts allowed per env runner, in effect unlimited."""


class HostBatches(ConnectorV2):
    """The whole learner pipeline: it turns rollouts into samples, one per host and period, with A3C's advantages."""

    def __init__(self, obs: Space[Any] | None = None, action: Space[Any] | None = None, *, config: RllibConfig) -> None:
        super().__init__(obs, action)
        self._config = config

    def __call__(
        self, *, rl_module: MultiRLModule, batch: dict[str, Any], episodes: list[SingleAgentEpisode], **_: Any
    ) -> dict[str, Any]:
        module: HostModule = rl_module[DEFAULT_MODULE_ID].unwrapped()
        parts = [samples(module, episode, self._config.gamma) for episode in episodes]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        joined[Postprocessing.ADVANTAGES] = normalized(joined[Postprocessing.ADVANTAGES], self._config.max_advantage)
        made = {name: torch.from_numpy(array) for name, array in joined.items()}
        kind = module.get_exploration_action_dist_cls()
        made[Columns.ACTION_LOGP] = kind.from_logits(made[Columns.ACTION_DIST_INPUTS]).logp(made[Columns.ACTIONS])
        return {**batch, DEFAULT_MODULE_ID: made}


def samples(module: HostModule, episode: SingleAgentEpisode, gamma: float) -> dict[str, npt.NDArray[Any]]:
    """Return a rollout as arrays [periods * racks * hosts, ...] by RLlib's names; advantages are not normalised.

    Raises:
        InvalidRunError: a reward is not finite, or the environment could not continue.
    """

    def value(obs: ObsArray) -> Float:
        with torch.no_grad():
            values: Float = module.compute_values({Columns.OBS: torch.tensor(obs)}).numpy()
        return values

    periods = [info[PERIOD] for info in episode.get_infos(slice(1, None))]
    if failed := [period for period in periods if isinstance(period, str)]:
        raise InvalidRunError(failed[0])
    obs, actions = episode.get_observations(), episode.get_actions()
    rewards, terminated, truncated = (np.stack([period[i] for period in periods]) for i in range(3))
    cut = tuple((t, rack) for t, rack in np.argwhere(truncated & ~terminated).tolist())
    rollout = Rollout(
        actions=actions,
        values=value(obs[:-1]),
        rewards=require_finite(rewards),
        terminated=terminated,
        truncated=truncated,
        last_obs=obs[-1],
        cut=cut,
        cut_obs=[periods[t].final_obs[rack] for t, rack in cut],
    )
    advantage, returns = returns_of(value, rollout, gamma)
    inputs = episode.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)
    return {
        Columns.OBS: obs[:-1, ..., : module.shape.obs_dim].reshape(actions.size, -1),
        Columns.ACTIONS: actions.reshape(-1) if module.shape.n_actions else actions.reshape(-1, 1),
        Columns.ACTION_DIST_INPUTS: inputs.reshape(actions.size, -1),
        Postprocessing.ADVANTAGES: advantage.reshape(-1),
        Postprocessing.VALUE_TARGETS: returns.reshape(-1),
    }


class PpoLearner(PPOTorchLearner):
    """PPO's learner with A3C's Adam. Its minibatches count samples, where RLlib's count steps of environments."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Register A3C's Adam for a module, at the rate `config.lr`."""
        params = self.get_parameters(self.module[module_id])
        optimizer = torch.optim.Adam(params, betas=(BETA1, BETA2), eps=EPS)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr)

    def update(self, training_data: TrainingData, **settings: Any) -> Any:
        """Update as RLlib does, in `RllibConfig.minibatches` steps per pass."""
        training_data.solve_refs()
        n_samples = sum(episode.get_actions().size for episode in training_data.episodes)
        settings["minibatch_size"] = math.ceil(n_samples / self.config.learner_config_dict["minibatches"])
        return super().update(training_data=training_data, **settings)


def network(algorithm: Algorithm) -> HostModule:
    """Return the network that an algorithm trains, which is in this process."""
    found: list[Any] = []
    algorithm.learner_group.foreach_learner(lambda learner: found.append(learner.module[DEFAULT_MODULE_ID].unwrapped()))
    module: HostModule = found[0]
    return module


def algorithm_config(config: RllibConfig, settings: EnvSettings, seed: int) -> PPOConfig:
    """Make RLlib's configuration; `config` must have its racks set. A step of RLlib is a period of all racks."""
    steps = math.ceil(config.epochs / (config.racks or 1))
    rllib = PPOConfig()
    rllib.framework("torch")
    rllib.learners(num_learners=0, num_gpus_per_learner=0)
    rllib.debugging(seed=derive_seed(seed, "rllib", settings.episode) % 2**31, log_level="ERROR")
    rllib.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=0)
    rllib.rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=HostModule,
            model_config={
                "hidden": config.hidden,
                "seed": derive_seed(seed, "a3c", "init"),
                "critic": config.value_coef > 0,
                "noise": (config.noise, config.noise_final, steps),
            },
        )
    )
    rllib.environment(
        env=RolloutEnv,
        env_config={"settings": settings},
        disable_env_checking=True,
        normalize_actions=False,
        clip_actions=False,
    )
    rllib.env_runners(
        num_env_runners=config.env_runners,
        gym_env_vectorize_mode="vector_entry_point",
        batch_mode="complete_episodes",
        sample_timeout_s=SILENCE_S,
    )
    rllib.fault_tolerance(
        restart_failed_env_runners=True,
        max_num_env_runner_restarts=NEVER,
        env_runner_health_probe_timeout_s=PROBE_S,
    )
    rllib.callbacks(callbacks_class=EnvCallbacks)
    rllib.training(
        gamma=config.gamma,
        lr=schedule(config.learning_rate, config.learning_rate_final, steps),
        entropy_coeff=schedule(config.entropy_coef, config.entropy_coef_final, steps),
        grad_clip=config.max_grad_norm,
        grad_clip_by="global_norm",
        learner_class=PpoLearner,
        learner_config_dict={"minibatches": config.minibatches},
        learner_connector=partial(HostBatches, config=config),
        add_default_connectors_to_learner_pipeline=False,
        train_batch_size_per_learner=settings.rollout * config.collectors,
        num_epochs=config.passes,
        minibatch_size=None,
        shuffle_batch_per_epoch=True,
        clip_param=CLIP,
        vf_clip_param=float("inf"),
        use_critic=config.value_coef > 0,
        vf_loss_coeff=0.5 * config.value_coef,  # RLlib's PPO omits the factor one half
        use_kl_loss=False,
    )
    return rllib


def schedule(start: float, final: float | None, steps: int) -> Any:
    """Return a setting in RLlib's form: linear from `start` to `final` in `steps`, or constant if `final` is None."""
    return start if final is None else [[0, start], [steps, final]]
