# SPDX-License-Identifier: BSD-3-Clause
"""Policies that nobody trained, which always do the same: files as a training leaves them, and packages of them."""

from pathlib import Path

import numpy as np

from ncc.agents.packaged import package_policy
from ncc.agents.policy import save_policy
from ncc.core.scenario import Scenario
from ncc.envs.observation import obs_dim
from ncc.envs.ranges import trained_ranges
from ncc.envs.spec import EnvView
from ncc.harness.datapath import HostStack


def write_policy(path: Path, scenario: Scenario, *, action: int = 0, stack: HostStack | None = None) -> Path:
    """A policy that always takes `action` (0: the lowest limit), and claims to be trained over `stack`."""
    view = EnvView()
    n = view.action.n_actions
    weights = np.zeros((n, obs_dim(view.observation, scenario)), dtype=np.float32)
    parts = {"observation": view.observation, "action": view.action, "stack": stack or HostStack()}
    meta = {name: part.to_dict() for name, part in parts.items()} | {"scenario": scenario.to_dict()}
    meta["trained"] = trained_ranges([scenario]).to_dict()
    save_policy(path, [(weights, np.eye(n, dtype=np.float32)[action])], meta)
    return path


def package(
    folder: Path, scenario: Scenario, *, name: str = "ncc", action: int = 0, stack: HostStack | None = None
) -> Path:
    """The same, packaged in `folder`."""
    source = write_policy(folder.parent / "policy_to_pack.npz", scenario, action=action, stack=stack)
    made = {"commit": "0" * 40, "dirty": False, "changes": None, "note": ""}
    return package_policy(source, name, seed=1, recipe={}, facts={}, provenance={"git": made}, folder=folder)
