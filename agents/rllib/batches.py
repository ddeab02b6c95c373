# SPDX-License-Identifier: BSD-3-Clause
"""Train batches from `RackRollout`s, in place of RLlib's connectors, which work episode by episode.

The observation after a rollout or a truncation is worth gamma times the learner's value of it. PPO uses that in its
advantages; for V-trace it is added to the last reward and the episode ends. RLlib's extra time step has the same
purpose.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.evaluation.postprocessing import Postprocessing
from torch import Tensor

from ncc.agents.a3c.rollout import Float
from ncc.agents.a3c.update import advantages, following_values
from ncc.agents.rllib.env_runner import RackRollout
from ncc.agents.rllib.module import HostModule
from ncc.harness.batch import ActionArray, ObsArray

Batch = dict[str, Tensor]
MakeBatch = Callable[[HostModule, Sequence[RackRollout]], Batch]


class HostBatches(ConnectorV2):
    """The whole learner pipeline, for one learner: `make` turns its network and rollouts into a batch."""

    def __init__(self, obs: Space[Any] | None = None, action: Space[Any] | None = None, *, make: MakeBatch) -> None:
        super().__init__(obs, action)
        self._make = make

    def __call__(
        self, *, rl_module: MultiRLModule, batch: dict[str, Any], episodes: list[RackRollout], **_: Any
    ) -> dict[str, Batch]:
        return {**batch, DEFAULT_MODULE_ID: self._make(rl_module[DEFAULT_MODULE_ID].unwrapped(), episodes)}


def ppo_batch(
    module: HostModule,
    rollouts: Sequence[RackRollout],
    *,
    gamma: float,
    gae_lambda: float,
    max_advantage: float | None = None,
) -> Batch:
    """Samples [all periods of all hosts] with generalised advantages, scaled to mean square 1 and cut as in A3C."""
    parts, returns = [], []
    for rollout in rollouts:
        values = values_of(module, rollout.obs)
        advantage, targets = advantages(
            rollout.rewards,
            values,
            following_values(
                values, values_of(module, rollout.last_obs), rollout.cut, values_of(module, rollout.cut_obs)
            ),
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            gamma=gamma,
            gae_lambda=gae_lambda,
        )
        parts.append(advantage.reshape(-1))
        returns.append(targets.reshape(-1))
    advantage = np.concatenate(parts)
    scaled = advantage / (np.sqrt(np.mean(advantage**2)) + np.float32(1e-8))
    if max_advantage is not None:
        scaled = np.clip(scaled, -max_advantage, max_advantage)
    logits = _rows([rollout.logits for rollout in rollouts])
    actions = _actions([rollout.actions.reshape(-1) for rollout in rollouts])
    return {
        Columns.OBS: _rows([rollout.obs for rollout in rollouts]),
        Columns.ACTIONS: actions,
        Columns.ACTION_DIST_INPUTS: logits,
        Columns.ACTION_LOGP: _log_probs(logits, actions),
        Postprocessing.ADVANTAGES: torch.from_numpy(scaled),
        Postprocessing.VALUE_TARGETS: torch.from_numpy(np.concatenate(returns)),
    }


def vtrace_batch(module: HostModule, rollouts: Sequence[RackRollout], *, gamma: float) -> Batch:
    """Samples in sequences of T periods of one host each, where T is RLlib's `rollout_fragment_length`."""
    rewards, ended = [], []
    for rollout in rollouts:
        reward, end = rollout.rewards.copy(), rollout.terminated.copy()
        for (t, rack), value in zip(rollout.cut, values_of(module, rollout.cut_obs), strict=True):
            reward[t, rack] += gamma * value
            end[t, rack] = True
        goes_on = ~end[-1][:, None]
        reward[-1] += gamma * values_of(module, rollout.last_obs) * goes_on
        end[-1] = True
        rewards.append(_runs(reward))
        ended.append(_runs(np.broadcast_to(end[..., None], reward.shape)))
    logits = _rows([np.moveaxis(rollout.logits, 0, 2) for rollout in rollouts])
    actions = _actions([_runs(rollout.actions) for rollout in rollouts])
    return {
        Columns.OBS: _rows([np.moveaxis(rollout.obs, 0, 2) for rollout in rollouts]),
        Columns.ACTIONS: actions,
        Columns.ACTION_DIST_INPUTS: logits,
        Columns.ACTION_LOGP: _log_probs(logits, actions),
        Columns.REWARDS: torch.from_numpy(np.concatenate(rewards)),
        Columns.TERMINATEDS: torch.from_numpy(np.concatenate(ended)),
        Columns.LOSS_MASK: torch.ones(len(actions), dtype=torch.bool),
    }


def values_of(module: HostModule, obs: ObsArray) -> Float:
    """Values [...] of observations [..., obs_dim]."""
    with torch.no_grad():
        # Arrays from Ray are read-only, which makes PyTorch warn.
        writable = torch.from_numpy(np.require(obs, requirements="W"))
        values: Float = module.compute_values({Columns.OBS: writable}).numpy()
    return values


def _rows(arrays: Sequence[Float]) -> Tensor:
    """Concatenate arrays [..., size] to rows [rows, size]."""
    return torch.from_numpy(np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays]))


def _runs(array: Any) -> Any:
    """Flatten [T, R, N] so that time varies fastest."""
    return np.moveaxis(array, 0, 2).reshape(-1)


def _actions(arrays: Sequence[ActionArray]) -> Tensor:
    """Discrete actions [rows], or real-valued ones [rows, 1] as RLlib's distributions have them."""
    actions = torch.from_numpy(np.concatenate(arrays))
    return actions[:, None] if actions.is_floating_point() else actions


def _log_probs(logits: Tensor, actions: Tensor) -> Tensor:
    if actions.is_floating_point():
        mean, log_noise = logits.chunk(2, dim=-1)
        error = (actions - mean) / log_noise.exp()
        return (-0.5 * error.square() - log_noise - 0.5 * math.log(2 * math.pi)).squeeze(-1)
    return torch.log_softmax(logits, -1).gather(-1, actions[:, None]).squeeze(-1)
