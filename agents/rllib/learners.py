# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's learners with A3C's Adam, its noise, and the errors of env runners; their losses are RLlib's own."""

from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME

from ncc.agents.a3c.adam import BETA1, BETA2, EPS
from ncc.agents.rllib.env_runner import FailedRollout
from ncc.agents.rllib.module import HostModule
from ncc.core.errors import InvalidRunError


class SameAdam:
    """A mixin that gives RLlib's learners A3C's constants of Adam, and A3C's noise for real-valued actions."""

    def configure_optimizers_for_module(self: Any, module_id: str, config: Any = None) -> None:
        """Register A3C's Adam for a module, at the rate `config.lr`."""
        params = self.get_parameters(self.module[module_id])
        optimizer = torch.optim.Adam(params, betas=(BETA1, BETA2), eps=EPS)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr)

    def update(self: Any, training_data: TrainingData, **settings: Any) -> Any:
        """Update as RLlib does.

        Raises:
            InvalidRunError: an env runner reported that it cannot continue.
        """
        training_data.solve_refs()
        for episode in training_data.episodes or ():
            if isinstance(episode, FailedRollout):
                raise InvalidRunError(episode.message)
        return super().update(training_data=training_data, **settings)  # type: ignore[misc]

    def after_gradient_based_update(self: Any, *, timesteps: dict[str, Any]) -> None:
        """Lower rates as RLlib does, and the noise, which env runners get with the weights."""
        super().after_gradient_based_update(timesteps=timesteps)  # type: ignore[misc]
        for module in self.module.values():
            if isinstance(found := module.unwrapped(), HostModule):
                found.lower_noise(timesteps.get(NUM_ENV_STEPS_SAMPLED_LIFETIME, 0))


class PpoLearner(SameAdam, PPOTorchLearner):
    """PPO's learner with A3C's Adam."""


class AppoLearner(SameAdam, APPOTorchLearner):
    """APPO's learner with A3C's Adam."""


class ImpalaLearner(SameAdam, IMPALATorchLearner):
    """IMPALA's learner with A3C's Adam."""


def network(algorithm: Any) -> HostModule:
    """The network that an algorithm trains, in this process."""
    (found,) = algorithm.learner_group.foreach_learner(_network)
    module: HostModule = found.get()
    return module


def _network(learner: Any) -> HostModule:
    (module,) = learner.module.values()
    host_module: HostModule = module.unwrapped()
    return host_module
