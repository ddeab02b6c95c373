# SPDX-License-Identifier: BSD-3-Clause
"""Policy files of networks that nobody trained, for observations of any kind."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from ncc.agents.policy import MlpPolicy
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec, names_of
from ncc.envs.ranges import TrainedRanges, TrustedRanges
from ncc.policies import table_bounds
from ncc.policies.file import PolicyFile, packed, policy_file_from

WITHIN = TrustedRanges(
    hosts=(2, 32), uplink_frac=(0.05, 1), rtt_periods=(0.2, 6), buffer_periods=(2.5, 1000), delay_periods=(1, 2)
)


def untrained(
    file: PolicyFile,
    observation: ObservationSpec,
    obs_dim: int,
    action: ActionSpec | None = None,
    hidden: tuple[int, ...] = (16,),
) -> tuple[bytes, PolicyFile]:
    """A copy of a file with this observation and action; without an action, levels of the link's rate."""
    rng, action = np.random.default_rng(1), action or ActionSpec()
    layers = [
        (rng.normal(size=(outputs, inputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32))
        for inputs, outputs in pairwise((obs_dim, *hidden, action.n_outputs))
    ]
    header = file.header.replace(
        name="untrained",
        layers=tuple(weights.shape for weights, _ in layers),
        observation=observation,
        action=action,
        limits=table_bounds(action),
    )
    data = packed(header, MlpPolicy(layers))
    return data, policy_file_from(data, "a test")


def discrete(file: PolicyFile) -> tuple[bytes, PolicyFile]:
    """A copy of a file with a policy that chooses among fractions of the fair share, for 4 to 64 hosts."""
    header = file.header.replace(
        trained=TrainedRanges(
            base_rtt_s=(1.5e-5, 5.4e-3),
            buffer_bytes=(8e4, 4e6),
            host_rate_bps=(1e9, 1e10),
            hosts=(4, 64),
            load_frac=(0.05, 0.95),
            period_s=(2e-5, 1e-3),
            uplink_frac=(0.1, 16),
        )
    )
    observation = ObservationSpec(neighbours="ranked", ceiling=1.0)
    n, action = len(names_of(observation, 0)), ActionSpec(kind="shares")
    return untrained(replace(file, header=header), observation, n, action, hidden=(64, 64))


def residual(file: PolicyFile) -> tuple[bytes, PolicyFile]:
    """A copy of a file with a policy that multiplies a formula's limit."""
    observation = ObservationSpec(neighbours="ordered", ages=True)
    action = ActionSpec(kind="residual", formula="local_hold", min_rate_frac=0.002, within=WITHIN)
    return untrained(file, observation, len(names_of(observation, 0)), action)
