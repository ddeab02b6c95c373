# SPDX-License-Identifier: BSD-3-Clause
"""PPO of `agent=groups` in RLlib's learner: its loss, clipping, Adam and minibatches, with our advantages."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor, nn

from ncc.agents.a3c.adam import TrainState
from ncc.agents.groups.config import GroupsConfig
from ncc.agents.groups.network import Float, Shape
from ncc.agents.groups.play import Samples
from ncc.agents.rllib.env_runner import quiet
from ncc.agents.rllib.learners import PpoLearner

SCALARS = {"policy_loss": "loss/policy", "gradients_default_optimizer_global_norm": "loss/gradient_norm"}
"""RLlib's names of reported numbers, of the last minibatch, and those of `ncc.agents.groups.update`."""


class GaussianModule(TorchRLModule, ValueFunctionAPI):
    """The network of `Shape` as an RLModule: tanh layers that end in the mean of a Gaussian. It has no critic.

    `model_config` has `hidden` (sizes). Batches are {"obs": [..., obs_dim]}.
    """

    noise = 1.0
    """Standard deviation of the Gaussian, which is not learnt."""

    def setup(self) -> None:
        sizes = (self.observation_space.shape[0], *self.model_config["hidden"], 1)
        affine = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)]
        self.policy = nn.Sequential(*(part for layer in affine for part in (layer, nn.Tanh())))

    def _forward(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Tensor]:
        mean = self.policy(batch[Columns.OBS])
        spread = torch.full_like(mean, math.log(self.noise))
        return {Columns.ACTION_DIST_INPUTS: torch.cat([mean, spread], -1)}

    def compute_values(self, batch: Mapping[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Zeros, as RLlib's PPO demands the method."""
        return torch.zeros(batch[Columns.OBS].shape[:-1])


class RllibUpdates:
    """`ncc.agents.groups.update.improve` by RLlib's PPO, with the same minibatches for the same generator."""

    def __init__(self, config: GroupsConfig, shape: Shape) -> None:
        quiet()
        self._config = config
        made = PPOConfig()
        made.framework("torch")
        made.learners(num_learners=0, num_gpus_per_learner=0)
        made.rl_module(rl_module_spec=RLModuleSpec(GaussianModule, model_config={"hidden": shape.hidden}))
        made.training(
            learner_class=PpoLearner,
            use_critic=False,
            use_kl_loss=False,
            entropy_coeff=0.0,
            vf_loss_coeff=0.0,
            clip_param=config.clip,
            lr=config.learning_rate,
            grad_clip=config.max_grad_norm,
            grad_clip_by="global_norm",
        )
        spaces = Box(-np.inf, np.inf, (shape.obs_dim,), np.float32), Box(-np.inf, np.inf, (1,), np.float32)
        self._learner = made.build_learner(spaces={DEFAULT_MODULE_ID: spaces})

    def __call__(
        self, state: TrainState, samples: Samples, gained: Float, *, noise: float, rate: float, rng: np.random.Generator
    ) -> dict[str, float]:
        """Do PPO's passes over samples with advantages [n]; return scalars for logs."""
        config = self._config
        kept = rng.permutation(len(gained))[: config.max_samples]
        if not len(kept):
            return {}
        orders = [rng.permutation(len(kept)) for _ in range(config.passes)]
        spare = -len(kept) % config.batch_size  # RLlib's minibatches are all full: rows that its loss leaves out
        rows = kept[np.concatenate([np.pad(order, (0, spare), mode="wrap") for order in orders])]
        error = samples.error[rows]
        mean = samples.taken[rows] - error * np.float32(noise)
        batch = SampleBatch(
            {
                Columns.OBS: samples.obs[rows],
                Columns.ACTIONS: samples.taken[rows, None],
                Columns.ACTION_DIST_INPUTS: np.stack([mean, np.full_like(mean, math.log(noise))], -1),
                Columns.ACTION_LOGP: -0.5 * error**2 - np.float32(math.log(noise * math.sqrt(2 * math.pi))),
                Postprocessing.ADVANTAGES: gained[rows],
                Postprocessing.VALUE_TARGETS: np.zeros_like(mean),
                Columns.LOSS_MASK: np.tile(np.arange(len(kept) + spare) < len(kept), config.passes),
            }
        )
        self._set(state, noise, rate)
        found = self._learner.update(
            training_data=TrainingData(batch=MultiAgentBatch({DEFAULT_MODULE_ID: batch}, env_steps=len(rows))),
            minibatch_size=config.batch_size,
        )[DEFAULT_MODULE_ID]
        state.counts[0] += len(rows) // config.batch_size
        return {ours: float(found[theirs]) for theirs, ours in SCALARS.items()}

    def _set(self, state: TrainState, noise: float, rate: float) -> None:
        """Make the vectors of `state` the learner's memory, so that RLlib's steps move them and nothing else."""
        module: GaussianModule = self._learner.module[DEFAULT_MODULE_ID].unwrapped()
        optimizer: torch.optim.Optimizer = self._learner.get_optimizer()
        module.noise, optimizer.param_groups[0]["lr"] = noise, rate
        parameters, at = list(module.parameters()), 0
        for parameter in parameters:
            part, at = slice(at, at + parameter.numel()), at + parameter.numel()
            views = [vector[part].view_as(parameter) for vector in (state.params, state.mean, state.square)]
            parameter.data = views[0]
            optimizer.state[parameter] = {
                "step": torch.tensor(float(state.updates)),
                "exp_avg": views[1],
                "exp_avg_sq": views[2],
            }
