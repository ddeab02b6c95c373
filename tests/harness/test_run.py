# SPDX-License-Identifier: BSD-3-Clause
import logging

import numpy as np
import pytest

from ncc.core.errors import ConfigError, InvalidRunError
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from tests.support.experiments import controller, fluid_run, small_rack
from tests.support.fluid import FluidDatapath


def one_flow(**changes: object) -> Scenario:
    flow = {"start_s": 0.0015, "src": "h0", "dst": "r0", "size_bytes": 1_250_000}
    workload = {"one": {"kind": "fixed", "flows": [flow]}}
    return small_rack(workload=workload, duration_s=0.01, **changes)


def test_one_flow_takes_its_bits_over_the_line_rate() -> None:
    run = fluid_run(scenario=one_flow())
    # 1.25 MB in 857 packets of 1538 bytes at 1 Gbit/s, from 1.5 ms on; handshake and propagation take 90 us.
    assert run.records.flows.finish_s[0] == pytest.approx(0.0015 + 857 * 1538 * 8e-9, abs=1e-4)
    assert run.valid
    assert len(run.epochs.time_s) == 13, "the run ends with the epoch of the last delivery"
    assert run.epochs.time_s[-1] == pytest.approx(0.013)
    assert run.epochs.columns["goodput_bps"].shape == (13, 4)
    assert run.epochs.columns["goodput_bps"][5].tolist() == pytest.approx([1e9 * 1460 / 1538, 0, 0, 0], rel=0.02)


def test_the_limiter_decides() -> None:
    # A fixed share is 2 Gbit/s over 4 hosts, of packets of 1500 bytes.
    run = fluid_run(scenario=one_flow(), share=True)
    assert run.records.flows.finish_s[0] == pytest.approx(0.0015 + 857 * 1500 * 8 / 5e8, abs=1e-4)
    assert np.all(run.epochs.columns["rate_limit_bps"] == 5e8)


def test_each_decision_sees_the_measurement_before_it() -> None:
    seen: list[int] = []

    class Watching(Unlimited):
        def decide(self, measurement: Measurement) -> np.ndarray:
            seen.append(measurement.epoch)
            return super().decide(measurement)

    run = run_once(FluidDatapath(), one_flow(), controller("w"), Watching(), 1, flow_seed=1)
    assert seen == list(range(len(run.epochs.time_s)))


def test_undelivered_flows_make_the_run_invalid_and_are_said(caplog: pytest.LogCaptureFixture) -> None:
    scenario = one_flow(drain_s=0.005)
    with caplog.at_level(logging.WARNING):
        run = fluid_run(scenario=scenario, transport="sticky")
    assert len(run.epochs.time_s) == 15, "duration 10 ms and drain 5 ms at 1 ms"
    assert not run.valid
    assert "1 of 1 flows were not delivered by 0.015 s (first: flow 0, h0 to r0, 1250000 bytes" in run.problems[0]
    assert "INVALID" in caplog.text
    with pytest.raises(InvalidRunError, match=r"'sticky', seed 1 must not be used: 1 of 1 flows"):
        run.require_valid()


def test_a_fallback_makes_the_run_invalid() -> None:
    run = fluid_run(transport="sloppy")
    assert run.fallbacks == ("the sloppy transport pretended",)
    assert run.problems == ("fallback: the sloppy transport pretended",)


def test_without_drain_limit_it_waits_for_every_flow() -> None:
    workload = {"p": {"kind": "permutation", "hosts": "hosts", "size_bytes": 5_000_000}}
    run = fluid_run(scenario=small_rack(workload=workload, duration_s=0.001, drain_s=None))
    assert run.valid
    assert run.epochs.time_s[-1] > 0.01


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not() -> None:
    a, b, c = fluid_run(1), fluid_run(1), fluid_run(2)
    assert np.array_equal(a.records.flows.finish_s, b.records.flows.finish_s)
    assert all(np.array_equal(a.epochs.columns[name], b.epochs.columns[name]) for name in a.epochs.columns)
    assert not np.array_equal(a.flows.start_s, c.flows.start_s)


def test_a_seed_without_flows_is_refused() -> None:
    web = {
        "kind": "poisson",
        "distribution": "websearch",
        "load_frac": 1e-6,
        "sources": "hosts",
        "destinations": "remotes",
    }
    with pytest.raises(ConfigError, match="draws no flow"):
        fluid_run(scenario=small_rack(workload={"web": web}))


def test_endless_flows_are_watched_until_arrivals_end_and_need_no_delivery() -> None:
    long = {"kind": "long", "sources": "hosts", "destinations": "remotes", "flows": 1}
    run = fluid_run(scenario=small_rack(workload={"long": long}, duration_s=0.01))
    assert run.valid
    assert len(run.epochs.time_s) == 10
    assert np.isnan(run.records.flows.finish_s).all()


def test_others_are_waited_for_beside_endless_ones() -> None:
    long = {"kind": "long", "sources": "hosts", "destinations": "remotes", "flows": 1}
    flow = {"start_s": 0.0015, "src": "h1", "dst": "r1", "size_bytes": 1_250_000}
    both = {"long": long, "one": {"kind": "fixed", "flows": [flow]}}
    run = fluid_run(scenario=small_rack(workload=both, duration_s=0.004))
    assert run.valid
    assert np.isfinite(run.records.flows.finish_s).sum() == 1
    assert len(run.epochs.time_s) == 13
