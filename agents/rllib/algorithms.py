# SPDX-License-Identifier: BSD-3-Clause
"""Translation of our settings into RLlib's."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPO, APPOConfig
from ray.rllib.algorithms.impala import IMPALA, IMPALAConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ncc.agents.rllib.batches import HostBatches
from ncc.agents.rllib.config import RllibConfig
from ncc.agents.rllib.env_runner import BatchedEnvRunner
from ncc.agents.rllib.module import HostModule
from ncc.agents.rllib.multi_agent import HostsEnvRunner, RackMultiAgentEnv
from ncc.agents.rllib.optimizers import AppoLearner, ImpalaLearner, PpoLearner
from ncc.agents.rllib.settings import EnvSettings
from ncc.core.seeding import derive_seed

HOSTS = "hosts"
"""Name of the only policy in the form multi_agent; it must differ from RLlib's name for a single agent."""
MARGIN_ROLLOUTS = 4
"""Rollouts that an env runner may have begun after its last report: twice the number that can be in flight."""
SILENCE_S = 120.0
"""Seconds without an answer from any env runner before the training counts as dead; a restart takes some seconds."""
STOP_S = 5.0
"""Seconds that an env runner gets to close its environment before it is killed."""
WAIT_S = 0.2
"""Seconds that the asynchronous algorithms wait for an answer before they look again."""
PROBE_S, PROBE_EVERY_S = 1.0, 10.0
"""Seconds that a restarted env runner gets to answer, and seconds between such requests. If its node is gone, nobody
answers and the live env runners wait meanwhile."""
NEVER = 10_000
"""Restarts allowed per env runner, in effect unlimited."""


class Homeless:
    """A mixin for algorithms without a log folder, which RLlib would otherwise make in the user's home."""

    def _setup_logdir(self: Any) -> None:
        self._logdir = tempfile.gettempdir()  # only a name: the loggers and Tune, which write there, are not used

    def restore_env_runners(self: Any, env_runner_group: Any) -> list[int]:
        """Restore env runners as RLlib does after each update, but at most every `PROBE_EVERY_S` seconds."""
        if time.monotonic() < getattr(self, "_probed_s", -PROBE_EVERY_S) + PROBE_EVERY_S:
            return []
        restored: list[int] = super().restore_env_runners(env_runner_group)  # type: ignore[misc]
        self._probed_s = time.monotonic()
        return restored

    def cleanup(self: Any) -> None:
        """Stop as RLlib does, but without waiting for an env runner that hangs."""
        group = self.env_runner_group
        if group is not None:  # marwil and bc have no env runners
            group.foreach_env_runner(_stop, healthy_only=False, local_env_runner=False, timeout_seconds=STOP_S)
            group._worker_manager.clear()
        super().cleanup()  # type: ignore[misc]


class Waits(Homeless):
    """An asynchronous algorithm that waits while no env runner is alive; RLlib's would collect by itself."""

    def _sample_and_get_connector_states(self: Any) -> Any:
        if self.env_runner is None and not self.env_runner_group.num_healthy_remote_workers():
            time.sleep(WAIT_S)
            return [], [], [], set()
        return super()._sample_and_get_connector_states()  # type: ignore[misc]


class HomelessPpo(Homeless, PPO):
    """PPO without a log folder."""


class WaitingAppo(Waits, APPO):
    """APPO that waits for env runners."""


class WaitingImpala(Waits, IMPALA):
    """IMPALA that waits for env runners."""


class NewEpisodes(RLlibCallback):
    """A callback that starts a restarted env runner after every episode that the lost one may have begun."""

    def on_env_runners_recreated(
        self, *, algorithm: Any, env_runner_group: Any, env_runner_indices: list[int], **_: Any
    ) -> None:
        """Set the first episode of recreated env runners, before they are asked for anything."""
        settings: EnvSettings = algorithm.config.env_config["settings"]
        for index in env_runner_indices:
            worker = settings.worker(index)
            heard = algorithm.next_episodes.get(worker, settings.episodes[worker])
            algorithm.next_episodes[worker] = heard + margin_episodes(algorithm.episodes_per_rollout, settings.rollout)
            begin = partial(_begin, episode=algorithm.next_episodes[worker])
            env_runner_group.foreach_env_runner(begin, remote_worker_ids=[index], local_env_runner=False)


def margin_episodes(per_rollout: int, rollout: int) -> int:
    """Number of episodes that a lost env runner may have begun after its last report.

    Args:
        per_rollout: the most that an env runner has begun in a rollout so far; 0: none has answered yet, and each
            per_rollout: the most episodes that an env runner has begun in a rollout so far; 0: none has answered yet,
                and each epoch may have been an episode.
        rollout: epochs of a rollout.
    """
    return MARGIN_ROLLOUTS * (per_rollout or rollout) + 1


def _begin(env_runner: Any, episode: int) -> None:
    env_runner.begin(episode)


def _stop(env_runner: Any) -> None:
    env_runner.stop()


def algorithm_config(config: RllibConfig, settings: EnvSettings) -> AlgorithmConfig:
    """Make RLlib's configuration of an online algorithm; `config` must have its racks and rollout set."""
    racks, rollout = config.racks or 1, config.rollout or 1
    made = _BASES[config.algorithm]()
    made.framework("torch")
    made.environment(env_config={"settings": settings}, disable_env_checking=True)
    made.env_runners(
        env_runner_cls=BatchedEnvRunner if config.form == "batched" else HostsEnvRunner,
        num_env_runners=config.env_runners,
        create_local_env_runner=config.env_runners == 0,
        num_envs_per_env_runner=1,
        rollout_fragment_length=rollout,
        merge_env_runner_states=False,
        use_env_runner_state_server=False,
        sample_timeout_s=SILENCE_S,
    )
    made.learners(num_learners=0, num_gpus_per_learner=0)
    made.fault_tolerance(restart_failed_env_runners=True, max_num_env_runner_restarts=NEVER)
    made.fault_tolerance(env_runner_health_probe_timeout_s=PROBE_S)
    made.callbacks(callbacks_class=NewEpisodes)
    made.debugging(seed=derive_seed(settings.seed, "rllib") % 2**31, log_level="ERROR")
    made.reporting(min_time_s_per_iteration=None, min_sample_timesteps_per_iteration=0)
    made.experimental(_validate_config=False)  # it compares minibatches in samples with batches in epochs
    made.rl_module(
        rl_module_spec=RLModuleSpec(
            module_class=HostModule,
            model_config={
                "hidden": config.hidden,
                "seed": derive_seed(settings.seed, "a3c", "init"),
                "unlimited_prob": config.initial_unlimited_prob,
            },
        )
    )
    made.training(
        gamma=config.gamma,
        lr=schedule(config.learning_rate, config.learning_rate_final, config.epochs),
        grad_clip=config.max_grad_norm,
        grad_clip_by="global_norm",
        entropy_coeff=schedule(config.entropy_coef, config.entropy_coef_final, config.epochs),
    )
    if config.form == "batched":
        gae_lambda = config.gae_lambda if config.algorithm == "ppo" else None
        made.training(
            learner_connector=partial(HostBatches, gamma=config.gamma, gae_lambda=gae_lambda),
            add_default_connectors_to_learner_pipeline=False,
        )
    else:
        made.environment(env=RackMultiAgentEnv)
        made.multi_agent(policies={HOSTS}, policy_mapping_fn=_one_policy)
    if config.algorithm == "ppo":
        made.training(
            learner_class=PpoLearner,
            train_batch_size_per_learner=rollout * racks * config.collectors,
            num_epochs=config.passes,
            minibatch_size=config.minibatch,
            shuffle_batch_per_epoch=True,
            clip_param=config.clip,
            lambda_=config.gae_lambda,
            vf_clip_param=float("inf"),
            vf_loss_coeff=0.5 * config.value_coef,  # RLlib's PPO omits the factor one half
            use_kl_loss=False,
        )
        return made
    made.reporting(min_time_s_per_iteration=WAIT_S)
    made.training(
        learner_class=AppoLearner if config.algorithm == "appo" else ImpalaLearner,
        train_batch_size_per_learner=rollout,  # RLlib multiplies by the fragment's length: each answer is a batch
        vf_loss_coeff=config.value_coef,
        timeout_s_sampler_manager=WAIT_S,
    )
    if config.algorithm == "appo":
        made.training(
            clip_param=config.clip,
            use_kl_loss=False,
            target_network_update_freq=racks,  # RLlib compares epochs of all racks with epochs of one
            circular_buffer_iterations_per_batch=1,  # with more, RLlib's reports and counters fall behind permanently
        )
    return made


def _one_policy(_agent: str, _episode: Any, **_: Any) -> str:
    return HOSTS


def schedule(start: float, final: float | None, epochs: int) -> Any:
    """A setting in RLlib's form: linear from `start` to `final`, or constant if `final` is None."""
    return start if final is None else [[0, start], [epochs, final]]


_BASES: dict[str, Callable[[], AlgorithmConfig]] = {
    "ppo": partial(PPOConfig, algo_class=HomelessPpo),
    "appo": partial(APPOConfig, algo_class=WaitingAppo),
    "impala": partial(IMPALAConfig, algo_class=WaitingImpala),
}
