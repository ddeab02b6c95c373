# SPDX-License-Identifier: BSD-3-Clause
"""The learner on real environments: racks of hosts, over the analytic datapath."""

from pathlib import Path

import numpy as np
import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.agents.policy import load_policy
from ncc.core.scenario import Scenario
from ncc.core.topologies import Rack
from ncc.core.units import GBPS
from ncc.core.workload import Poisson
from ncc.envs.action import ActionSpec
from ncc.envs.rack import RackBatch
from ncc.envs.reward import Utility
from ncc.envs.spec import EnvSpec, EnvView
from tests.agents.fitting import fit
from tests.support.mm1 import Mm1Datapath

HOSTS, LEVELS = 4, 20


def spec(rho: float, duration_s: float) -> EnvSpec:
    scenario = Scenario(
        name="small",
        topology=Rack(hosts=HOSTS, host_rate_bps=1 * GBPS, uplink_rate_bps=2 * GBPS, remotes=2),
        workload=(("web", Poisson(distribution="hadoop", load_frac=0.5, sources="hosts", destinations="remotes")),),
        duration_s=duration_s,
    )
    return EnvSpec(
        scenario=scenario, view=EnvView(action=ActionSpec(levels=LEVELS), reward=Utility(rho=rho, team_frac=1))
    )


def test_rates_approach_the_closed_form(tmp_path: Path) -> None:
    # x = C / (N (1 + rho)) = 2 Gbit/s / (4 * 2) = 0.25 Gbit/s: level 5 of 20 of a link of 1 Gbit/s.
    # Tolerance: one level, for each host in each epoch.
    config = A3cConfig(
        mode="sync",
        epochs=8000,
        rollout=40,
        gamma=0.0,
        learning_rate=3e-3,
        learning_rate_final=0.0,
        entropy_coef_final=0.0,
    )
    backlogged = spec(rho=1.0, duration_s=0.1)
    fit(config, lambda worker: RackBatch(backlogged, Mm1Datapath, 1), tmp_path)
    policy, _ = load_policy(tmp_path / "policy.ncc")
    env = RackBatch(backlogged, Mm1Datapath, 2)
    obs, levels = env.reset(), []
    for _ in range(100):
        levels.append(policy.act(obs, None))
        obs = env.step(levels[-1]).obs
    assert np.abs(np.array(levels) - 5).max() <= 1
    assert np.mean(levels) == pytest.approx(5, abs=0.5)
