# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's learners with A3C's Adam and with the errors of env runners; their losses are RLlib's own."""

from typing import Any

import torch
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.impala.torch.impala_torch_learner import IMPALATorchLearner
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from ncc.agents.a3c.adam import BETA1, BETA2, EPS
from ncc.agents.rllib.batches import Failures


class SameAdam:
    """A mixin that gives RLlib's learners Adam with A3C's constants."""

    def build(self: Any) -> None:
        """Build as RLlib does, with `Failures` as the first connector."""
        super().build()  # type: ignore[misc]
        self._learner_connector.prepend(Failures())

    def configure_optimizers_for_module(self: Any, module_id: str, config: Any = None) -> None:
        """Register A3C's Adam for a module, at the rate `config.lr`."""
        params = self.get_parameters(self._module[module_id])
        optimizer = torch.optim.Adam(params, betas=(BETA1, BETA2), eps=EPS)
        self.register_optimizer(module_id=module_id, optimizer=optimizer, params=params, lr_or_lr_schedule=config.lr)


class PpoLearner(SameAdam, PPOTorchLearner):
    """PPO's learner with A3C's Adam."""


class AppoLearner(SameAdam, APPOTorchLearner):
    """APPO's learner with A3C's Adam."""


class ImpalaLearner(SameAdam, IMPALATorchLearner):
    """IMPALA's learner with A3C's Adam."""
