# SPDX-License-Identifier: BSD-3-Clause
"""Policy files of networks that nobody trained, for observations of any kind."""

import numpy as np

from ncc.agents.policy import MlpPolicy
from ncc.envs.action import ActionSpec
from ncc.envs.entries import action_table, entry_names, formula_table, neighbours_of
from ncc.envs.observation import ObservationSpec, names_of
from ncc.envs.ranges import TrustedRanges
from ncc.policies import table_bounds
from ncc.policies.file import PolicyFile, packed, policy_file_from

WITHIN = TrustedRanges(
    hosts=(2, 32), uplink_frac=(0.05, 1), rtt_periods=(0.2, 6), buffer_periods=(2.5, 1000), delay_periods=(1, 2)
)


def untrained(
    file: PolicyFile, observation: ObservationSpec, obs_dim: int, action: ActionSpec | None = None
) -> tuple[bytes, PolicyFile]:
    """A file like another, but of this observation and action: levels of the link's rate, if none is given."""
    rng, action = np.random.default_rng(1), action or ActionSpec()
    layers = [
        (rng.normal(size=(outputs, inputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32))
        for outputs, inputs in ((16, obs_dim), (action.n_outputs, 16))
    ]
    header = file.header.replace(
        name="untrained",
        layers=tuple(weights.shape for weights, _ in layers),
        observation=observation,
        entries=entry_names(observation, obs_dim),
        neighbours=neighbours_of(observation, obs_dim),
        action=action,
        table=action_table(action, observation) if action.n_actions else None,
        formula=formula_table(action),
        limits=table_bounds(action),
    )
    data = packed(header, MlpPolicy(layers))
    return data, policy_file_from(data, "a test")


def residual(file: PolicyFile) -> tuple[bytes, PolicyFile]:
    """A file like another, of a policy that multiplies a formula's limit."""
    observation = ObservationSpec(neighbours="ordered", ages=True)
    action = ActionSpec(kind="residual", formula="local_hold", min_rate_frac=0.002, within=WITHIN)
    return untrained(file, observation, len(names_of(observation, 0)), action)
