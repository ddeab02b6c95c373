# SPDX-License-Identifier: BSD-3-Clause
"""packetsim and ns-3 under load, in short: bounds are wider than the report's, for the samples are small."""

import numpy as np
import pytest

from ncc.baselines.registry import controllers
from ncc.core.scenario import Scenario
from ncc.envs.make import datapath_factory
from ncc.harness.limiter import Unlimited
from ncc.harness.run import eval_flow_seed, run_once
from ncc.study.agreement.cases import PRESETS, baseline_controllers, load_cases
from ncc.study.agreement.compare import Sample, figures, sample

SEEDS = (0, 1)
CASES = {case.name: case.scenario for case in load_cases(PRESETS["quick"])}


def samples(datapath: str, scenario: Scenario, transport: str) -> list[Sample]:
    network = datapath_factory(datapath)()
    (controller,) = baseline_controllers((transport,))
    return [
        sample(
            run_once(network, scenario, controller, Unlimited(), seed, flow_seed=eval_flow_seed(seed)).require_valid()
        )
        for seed in SEEDS
    ]


@pytest.mark.parametrize("transport", controllers())
@pytest.mark.parametrize("case", CASES)
def test_under_load(case: str, transport: str) -> None:
    ours, theirs = (samples(datapath, CASES[case], transport) for datapath in ("packetsim", "ns3"))
    by_key = {figure.key: figure for figure in figures(ours, theirs, theirs)}
    assert by_key["slowdown_all_mean"].ratio.estimate == pytest.approx(1, abs=0.10)
    assert by_key["slowdown_all_p99"].ratio.estimate == pytest.approx(1, abs=0.25)
    assert by_key["throughput_bps"].ratio.estimate == pytest.approx(1, abs=0.02)
    assert by_key["queue_bytes"].ratio.estimate == pytest.approx(1, abs=0.25)
    loss = by_key["loss_frac"]
    assert loss.ours == loss.reference == 0 or 1 / 3 <= loss.ours / loss.reference <= 3
    if case.startswith("rack"):
        # Nothing is lost and most flows meet nobody: those must agree one by one, not only on average.
        ratios = np.concatenate([a.fct_s / b.fct_s for a, b in zip(ours, theirs, strict=True)])
        assert np.mean(np.abs(ratios - 1) < 0.01) > 0.8
