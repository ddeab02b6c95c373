# SPDX-License-Identifier: BSD-3-Clause
"""Policies that nobody trained, which always do the same: files as a training leaves them, and packages of them."""

from pathlib import Path

import numpy as np

from ncc.agents.policy import save_policy
from ncc.core.scenario import Scenario
from ncc.envs.observation import obs_dim
from ncc.envs.ranges import trained_ranges
from ncc.envs.spec import EnvView
from ncc.harness.datapath import HostStack
from ncc.policies.header import Origin, header_of_training


def write_policy(path: Path, scenario: Scenario, *, action: int = 0, stack: HostStack | None = None) -> Path:
    """A policy that always takes `action` (0: the lowest limit), and claims to be trained over `stack`."""
    view = EnvView()
    n = view.action.n_actions
    weights = np.zeros((n, obs_dim(view.observation, scenario)), dtype=np.float32)
    header = header_of_training(
        observation=view.observation,
        action=view.action,
        stack=stack or HostStack(),
        trained=trained_ranges([scenario]),
        period_s=scenario.period_s,
        origin=Origin(seed=7, recipe={"seed": 7}),
        scenario=scenario.to_dict(),
    )
    save_policy(path, [(weights, np.eye(n, dtype=np.float32)[action])], header)
    return path


def package(
    folder: Path, scenario: Scenario, *, name: str = "ncc", action: int = 0, stack: HostStack | None = None
) -> Path:
    """The same, packaged in `folder`."""
    return write_policy(folder / f"{name}.ncc", scenario, action=action, stack=stack)
