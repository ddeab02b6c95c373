# SPDX-License-Identifier: BSD-3-Clause
"""Policies for experiments whose own are not packaged (yet): as large as trained ones, with random weights."""

import shutil
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from ncc.agents.packaged import FOLDER, SUFFIX, package_policy, packaged_names
from ncc.agents.policy import save_policy
from ncc.core.scenario import Scenario
from ncc.core.topologies import Rack
from ncc.core.workload import Poisson
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec, obs_dim
from ncc.envs.spec import EnvView
from ncc.envs.trained import trained_ranges
from ncc.harness.controller import PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.study.spec import Experiment

SEEN = Scenario(
    name="seen",
    topology=Rack(),
    workload=(("flows", Poisson(distribution="websearch", load_frac=0.5, sources="hosts", destinations="remotes")),),
    duration_s=0.1,
)
HIDDEN = 64


def with_stand_ins(experiment: Experiment, folder: Path) -> LimiterFactory:
    """Packaged policies, and stand-ins for those that the experiment's contenders lack; all in `folder`."""
    folder.mkdir(parents=True)
    for name in packaged_names():
        for suffix in (SUFFIX, ".json"):
            shutil.copyfile(FOLDER / f"{name}{suffix}", folder / f"{name}{suffix}")
    for name in sorted(lacking(experiment)):
        _stand_in(name, folder)
    return LimiterFactory(None, folder)


def lacking(experiment: Experiment) -> set[str]:
    """Names of policies that contenders ask for and the package does not have."""
    return set(_asked(experiment)) - set(packaged_names())


def _asked(experiment: Experiment) -> Iterable[str]:
    for contender in experiment.contenders.values():
        limit = load_controller(contender.controller).limit
        if isinstance(limit, PolicyLimit):
            yield limit.pretrained


def _stand_in(name: str, folder: Path) -> None:
    """Random, by the name; it sees and does what NCC's recipes say, and is inclined to limit nobody."""
    view = EnvView(
        observation=ObservationSpec(neighbours="none" if name == "ncc_alone" else "ranked"),
        action=ActionSpec(kind="levels" if name == "ncc_levels" else "shares"),
    )
    rng = np.random.default_rng(len(name))
    sizes = (obs_dim(view.observation, SEEN), HIDDEN, HIDDEN, view.action.n_actions)
    layers = []
    for n_in, n_out in pairwise(sizes):
        weights = rng.normal(0, 1 / np.sqrt(n_in), (n_out, n_in)).astype(np.float32)
        layers.append((weights, np.linspace(0, 2, n_out, dtype=np.float32)))
    stack = HostStack(transport="dctcp", order="upsilon", order_params=(("omega_milli", 500),))
    meta = {"observation": view.observation.to_dict(), "action": view.action.to_dict(), "stack": stack.to_dict()}
    source = folder.parent / f"{name}_to_pack.npz"
    save_policy(source, layers, meta | {"scenario": SEEN.to_dict(), "trained": trained_ranges([SEEN]).to_dict()})
    made = {"commit": "0" * 40, "dirty": False, "changes": None, "note": ""}
    package_policy(source, name, seed=1, recipe={}, facts={}, provenance={"git": made}, folder=folder)
