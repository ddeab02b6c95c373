# SPDX-License-Identifier: BSD-3-Clause
"""A3C's networks as an RLModule, so that RLlib trains what `ncc.agents.policy` runs."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    InferenceOnlyAPI,
    TargetNetworkAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import Tensor, nn

from ncc.agents.a3c.config import scheduled
from ncc.agents.a3c.network import Net, NetShape, initial_params
from ncc.agents.policy import Layer


class HostModule(TorchRLModule, InferenceOnlyAPI, ValueFunctionAPI, TargetNetworkAPI):
    """Separate tanh networks of one host's observation: logits of its actions, and the value.

    For real-valued actions the policy has one output u and draws from a Gaussian around tanh(u), as A3C does.

    `model_config` has `hidden` (sizes), `seed` (of the weights), `critic` (false: all values are 0) and `noise` (first
    and last deviation of actions, and the periods between). Equal seeds give A3C's weights. Batches are
    {"obs": [..., obs_dim]}.
    """

    def setup(self) -> None:
        config = self.model_config
        self.n_actions = int(getattr(self.action_space, "n", 0))
        shape = NetShape(self.observation_space.shape[0], tuple(config["hidden"]), self.n_actions)
        policy, value = shape.split(initial_params(shape, config["seed"]))
        self.policy, self.value = _layers(policy), _layers(value)
        self.register_buffer("log_noise", torch.zeros(1))  # travels with the weights, and into checkpoints
        self.lower_noise(0)

    def lower_noise(self, epochs: int) -> None:
        """Set the deviation of real-valued actions after so many periods of training."""
        first, last, total = self.model_config["noise"]
        self.log_noise.fill_(math.log(scheduled(first, last, epochs / total)))

    @property
    def shape(self) -> NetShape:
        """Sizes of both networks."""
        affine = [layer for layer in self.policy if isinstance(layer, nn.Linear)]
        sizes = [layer.out_features for layer in affine]
        return NetShape(affine[0].in_features, tuple(sizes[:-1]), self.n_actions)

    def logits(self, obs: Tensor, policy: nn.Module | None = None) -> Tensor:
        """Logits [..., n_actions], or mean and logarithm of the deviation [..., 2], of `policy` or the newest."""
        outputs: Tensor = (self.policy if policy is None else policy)(obs)
        if self.n_actions:
            return outputs
        mean = torch.tanh(outputs)
        return torch.cat([mean, self.log_noise.expand_as(mean)], -1)

    def _forward(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS])}

    def compute_values(self, batch: Mapping[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Values [...], in units of the mean reward per period."""
        if not self.model_config["critic"]:
            return torch.zeros(batch[Columns.OBS].shape[:-1])
        values: Tensor = self.value(batch[Columns.OBS]).squeeze(-1)
        return values

    def get_non_inference_attributes(self) -> list[str]:
        """Names of the attributes that env runners do not need."""
        return ["value", "old_policy"]

    def make_target_networks(self) -> None:
        self.old_policy = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [(self.policy, self.old_policy)]

    def forward_target(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.logits(batch[Columns.OBS], self.old_policy)}


def policy_layers(module: HostModule) -> list[Layer]:
    """Copy the policy's weights and biases to numpy, for `ncc.agents.policy`."""
    return policy_layers_of(module.policy.state_dict())


def policy_layers_of(state: Mapping[str, Any]) -> list[Layer]:
    """Copy weights and biases from a policy's state: "0.weight", "0.bias", "2.weight", ... as tensors or arrays."""
    numbers = sorted({int(name.split(".")[0]) for name in state})
    return [
        (torch.as_tensor(state[f"{i}.weight"]).numpy().copy(), torch.as_tensor(state[f"{i}.bias"]).numpy().copy())
        for i in numbers
    ]


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
