# SPDX-License-Identifier: BSD-3-Clause
"""A3C's networks as an RLModule, so that RLlib trains what `ncc.agents.policy` runs."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from ncc.agents.a3c.network import Net, NetShape, initial_params
from ncc.agents.policy import Layer
from ncc.agents.settings import scheduled


class HostModule(TorchRLModule, InferenceOnlyAPI, ValueFunctionAPI):
    """Two tanh networks that read one host's observation: one gives the logits of its actions, the other its value.

    For real-valued actions the policy has one output u and draws from a Gaussian around tanh(u), as A3C does. If
    observations end in noise (`ncc.envs.pairs`), the networks do not see it; the action is tanh(u) + deviation * noise.

    `model_config` has `hidden` (sizes), `seed` (of the weights), `critic` (false: all values are 0) and `noise` (first
    and last deviation of actions, and the steps of RLlib between). Equal seeds give A3C's weights. Batches are
    {"obs": [..., obs_dim]}.
    """

    def setup(self) -> None:
        config = self.model_config
        n_actions = int(getattr(self.action_space, "n", 0))
        self.shape = NetShape(self.observation_space.shape[0], tuple(config["hidden"]), n_actions)
        policy, value = self.shape.split(initial_params(self.shape, config["seed"]))
        self.policy, self.value = _layers(policy), _layers(value)

    def _forward(self, batch: Mapping[str, Any], t: int = 0, **_: Any) -> dict[str, Tensor]:
        """Return logits [..., n_actions]; for real-valued actions mean and log-deviation [..., 2] after `t` steps."""
        outputs: Tensor = self.policy(batch[Columns.OBS][..., : self.shape.obs_dim])
        if not self.shape.n_actions:
            first, last, total = self.model_config["noise"]
            noise = torch.full_like(outputs, math.log(scheduled(first, last, t / total)))
            outputs = torch.cat([torch.tanh(outputs), noise], -1)
        return {Columns.ACTION_DIST_INPUTS: outputs}

    def _forward_exploration(self, batch: Mapping[str, Any], t: int = 0, **_: Any) -> dict[str, Tensor]:
        """Return actions [...] as well: drawn at random, or with the noise at the end of the observation."""
        obs = batch[Columns.OBS]
        with torch.no_grad():
            out = self._forward(batch, t)
            inputs = out[Columns.ACTION_DIST_INPUTS]
            if obs.shape[-1] > self.shape.obs_dim:
                return {**out, Columns.ACTIONS: inputs[..., 0] + inputs[..., 1].exp() * obs[..., -1]}
            actions = self.get_exploration_action_dist_cls().from_logits(inputs).sample()
        return {**out, Columns.ACTIONS: actions if self.shape.n_actions else actions.squeeze(-1)}

    def _forward_train(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Tensor]:
        """Return the outputs of `_forward`, with the deviations that real-valued actions had when they were drawn."""
        inputs = self._forward(batch)[Columns.ACTION_DIST_INPUTS]
        if not self.shape.n_actions:
            inputs = torch.cat([inputs[..., :1], batch[Columns.ACTION_DIST_INPUTS][..., 1:]], -1)
        return {Columns.ACTION_DIST_INPUTS: inputs}

    def compute_values(self, batch: Mapping[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Return values [...] of the observations, in units of the mean reward per period."""
        obs = batch[Columns.OBS]
        if not self.model_config["critic"]:
            return torch.zeros(obs.shape[:-1])
        values: Tensor = self.value(obs[..., : self.shape.obs_dim]).squeeze(-1)
        return values

    def get_non_inference_attributes(self) -> list[str]:
        """Names of the attributes that env runners do not need."""
        return ["value"]


def policy_layers(module: HostModule) -> list[Layer]:
    """Copy the policy's weights and biases to numpy, for `ncc.agents.policy`."""
    affine = [layer for layer in module.policy if isinstance(layer, nn.Linear)]
    return [(layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in affine]


def _layers(net: Net) -> nn.Sequential:
    """Make affine layers with copies of these weights, and tanh between them."""
    parts: list[nn.Module] = []
    for weight, bias in net:
        affine = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            affine.weight.copy_(weight)
            affine.bias.copy_(bias)
        parts += [affine, nn.Tanh()]
    return nn.Sequential(*parts[:-1])
