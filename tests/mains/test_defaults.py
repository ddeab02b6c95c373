# SPDX-License-Identifier: BSD-3-Clause
"""Defaults of the mains and of the Python interfaces are the same."""

from ncc.envs.make import DEFAULT_DATAPATH, env_spec
from ncc.run.compose import composed
from ncc.run.plan import TrainPlan, planned


def test_the_environment_of_train_is_the_environment_of_gymnasium() -> None:
    plan, spec = TrainPlan.from_plain(planned(composed("train"))), env_spec()
    assert plan.scenario == spec.scenario
    assert plan.env == spec.view
    assert plan.stack == spec.stack
    assert plan.datapath.name == DEFAULT_DATAPATH
