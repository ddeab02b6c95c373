# SPDX-License-Identifier: BSD-3-Clause
"""Translation of our settings into RLlib's."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPO, APPOConfig
from ray.rllib.algorithms.impala import IMPALA, IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ncc.agents.rllib.batches import HostBatches, ppo_batch, vtrace_batch
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import BatchedEnvRunner, EnvSettings
from ncc.agents.rllib.learners import AppoLearner, ImpalaLearner, PpoLearner
from ncc.agents.rllib.module import HostModule
from ncc.core.seeding import derive_seed

ROLLOUTS_LOST = 4
"""Rollouts that an env runner may have begun after its last report: twice the number that can be in flight."""
SILENCE_S = 120.0
"""Seconds without an answer from any env runner before the training counts as dead; a restart takes some seconds."""
WAIT_S = 0.2
"""Seconds that the asynchronous algorithms wait for an answer before they look again."""
PROBE_S = 0.2
"""Seconds before each update that RLlib waits for an answer of lost env runners; the others wait meanwhile."""
NEVER = 10_000
"""Restarts allowed per env runner, in effect unlimited."""


class Waits:
    """An asynchronous algorithm that waits while no env runner is alive; RLlib's would collect by itself."""

    def training_step(self: Any) -> None:
        """Collect and learn as RLlib does, or wait."""
        if self.env_runner is None and not self.env_runner_group.num_healthy_remote_workers():
            time.sleep(WAIT_S)
        else:
            super().training_step()  # type: ignore[misc]


class WaitingAppo(Waits, APPO):
    """APPO that waits for env runners."""


class WaitingImpala(Waits, IMPALA):
    """IMPALA that waits for env runners."""


class NewEpisodes(RLlibCallback):
    """A callback that starts a restarted env runner after every episode that the lost one may have begun."""

    def on_env_runners_recreated(
        self, *, algorithm: Any, env_runner_group: Any, env_runner_indices: list[int], **_: Any
    ) -> None:
        """Set the first episode of recreated env runners before they are used."""
        settings: EnvSettings = algorithm.config.env_config["settings"]
        for index in env_runner_indices:
            worker = settings.worker(index)
            algorithm.next_episodes[worker] += ROLLOUTS_LOST * settings.rollout + 1  # an episode has an epoch at least
            begin = partial(_begin, episode=algorithm.next_episodes[worker])
            env_runner_group.foreach_env_runner(begin, remote_worker_ids=[index], local_env_runner=False)


def _begin(env_runner: Any, episode: int) -> None:
    env_runner.begin(episode)


def algorithm_config(config: RllibConfig, settings: EnvSettings) -> AlgorithmConfig:
    """Make RLlib's configuration; `config` must have its racks and rollout set."""
    racks, rollout = config.racks or 1, config.rollout or 1
    make = partial(vtrace_batch, gamma=config.gamma)
    if config.algorithm == "ppo":
        make = partial(ppo_batch, gamma=config.gamma, gae_lambda=config.gae_lambda, max_advantage=config.max_advantage)
    rllib = _BASES[config.algorithm]()
    rllib.framework("torch")
    rllib.learners(num_learners=0, num_gpus_per_learner=0)
    rllib.debugging(seed=derive_seed(settings.seed, "rllib") % 2**31, log_level="ERROR")
    rllib.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=0)
    rllib.experimental(_validate_config=False)  # it compares minibatches in samples with batches in epochs
    rllib.rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=HostModule,
            model_config={
                "hidden": config.hidden,
                "seed": derive_seed(settings.seed, "a3c", "init"),
                "critic": config.value_coef > 0,
                "noise": (config.noise, config.noise_final, config.epochs),
            },
        )
    )
    rllib.environment(env_config={"settings": settings}, disable_env_checking=True)
    rllib.env_runners(
        env_runner_cls=BatchedEnvRunner,
        num_env_runners=config.env_runners,
        create_local_env_runner=config.env_runners == 0,
        num_envs_per_env_runner=1,
        rollout_fragment_length=rollout,
        merge_env_runner_states=False,
        use_env_runner_state_server=False,
        sample_timeout_s=SILENCE_S,
    )
    rllib.fault_tolerance(
        restart_failed_env_runners=True,
        max_num_env_runner_restarts=NEVER,
        env_runner_health_probe_timeout_s=PROBE_S,
    )
    rllib.callbacks(callbacks_class=NewEpisodes)
    rllib.training(
        gamma=config.gamma,
        lr=schedule(config.learning_rate, config.learning_rate_final, config.epochs),
        entropy_coeff=schedule(config.entropy_coef, config.entropy_coef_final, config.epochs),
        grad_clip=config.max_grad_norm,
        grad_clip_by="global_norm",
        learner_connector=partial(HostBatches, make=make),
        add_default_connectors_to_learner_pipeline=False,
    )
    if config.algorithm == "ppo":
        rllib.training(
            learner_class=PpoLearner,
            train_batch_size_per_learner=rollout * racks * config.collectors,
            num_epochs=config.passes,
            minibatch_size=config.minibatch,
            shuffle_batch_per_epoch=True,
            clip_param=config.clip,
            lambda_=config.gae_lambda,
            vf_clip_param=float("inf"),
            use_critic=config.value_coef > 0,
            vf_loss_coeff=0.5 * config.value_coef,  # RLlib's PPO omits the factor one half
            use_kl_loss=False,
        )
        return rllib
    rllib.reporting(min_time_s_per_iteration=WAIT_S)
    rllib.training(
        learner_class=AppoLearner if config.algorithm == "appo" else ImpalaLearner,
        train_batch_size_per_learner=rollout,  # RLlib multiplies by the fragment's length: each answer is a batch
        vf_loss_coeff=config.value_coef,
        timeout_s_sampler_manager=WAIT_S,
    )
    if config.algorithm == "appo":
        rllib.training(
            clip_param=config.clip,
            use_kl_loss=False,
            target_network_update_freq=racks,  # RLlib compares epochs of all racks with epochs of one
            circular_buffer_iterations_per_batch=1,  # with more, RLlib's reports and counters fall behind permanently
        )
    return rllib


def schedule(start: float, final: float | None, epochs: int) -> Any:
    """A setting in RLlib's form: linear from `start` to `final`, or constant if `final` is None."""
    return start if final is None else [[0, start], [epochs, final]]


_BASES: dict[str, Callable[[], AlgorithmConfig]] = {
    "ppo": PPOConfig,
    "appo": partial(APPOConfig, algo_class=WaitingAppo),
    "impala": partial(IMPALAConfig, algo_class=WaitingImpala),
}
