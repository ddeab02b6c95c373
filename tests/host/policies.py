# SPDX-License-Identifier: BSD-3-Clause
"""Policy files of networks that nobody trained, for observations of any kind."""

import numpy as np

from ncc.agents.policy import MlpPolicy
from ncc.envs.action import ActionSpec
from ncc.envs.entries import action_table, entry_names, neighbours_of
from ncc.envs.observation import ObservationSpec
from ncc.policies import table_bounds
from ncc.policies.file import PolicyFile, packed, policy_file_from


def untrained(file: PolicyFile, observation: ObservationSpec, obs_dim: int, seed: int = 1) -> tuple[bytes, PolicyFile]:
    """A file like another, but of this observation, whose policy chooses among levels of the link's rate."""
    rng, action = np.random.default_rng(seed), ActionSpec()
    layers = [
        (rng.normal(size=(outputs, inputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32))
        for outputs, inputs in ((16, obs_dim), (action.n_actions, 16))
    ]
    header = file.header.replace(
        name="untrained",
        layers=tuple(weights.shape for weights, _ in layers),
        observation=observation,
        entries=entry_names(observation, obs_dim),
        neighbours=neighbours_of(observation, obs_dim),
        action=action,
        table=action_table(action, observation),
        limits=table_bounds(action),
    )
    data = packed(header, MlpPolicy(layers))
    return data, policy_file_from(data, "a test")
