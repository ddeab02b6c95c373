# SPDX-License-Identifier: BSD-3-Clause
from dataclasses import replace

import numpy as np
import pytest

from ncc.core.errors import ConfigError, ResultError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.harness.trace import WindowTrace, trace_windows
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.support.mm1 import Mm1Datapath

SENDERS, PKTS = 4, 40
FACTORY = LimiterFactory(None)


def incast() -> Scenario:
    """Four senders of 40 packets each over a buffer of 30: nobody gets far above the initial window."""
    incast = {
        "kind": "incast",
        "events_per_s": 50,
        "fan_in": SENDERS,
        "bytes_per_server": 1460 * PKTS,
        "sources": "senders",
        "destinations": "receiver",
        "jitter_s": 0.0,
    }
    topology = {"kind": "many_to_one", "senders": SENDERS, "buffer_bytes": 45_000, "mark_threshold_bytes": 15_000}
    plain = {"name": "incast", "topology": topology, "workload": {"incast": incast}, "period_s": 1e-4}
    return scenario_from_dict({**plain, "duration_s": 0.03})


def run_on(datapath: str, controller: str = "dctcp") -> Run:
    scenario, tested = incast(), load_controller(controller)
    limiter = FACTORY(tested, scenario)
    simulator = load_datapath(datapath).load()()
    try:
        return run_once(simulator, scenario, tested, limiter, 1, flow_seed=eval_flow_seed(1))
    finally:
        simulator.close()


def traced(run: Run, **flows: list[int]) -> WindowTrace:
    limiter = FACTORY(run.controller, run.scenario)
    return trace_windows(run, load_datapath(run.datapath).load()(), limiter, **flows)


@pytest.mark.parametrize("datapath", ["packetsim", "ns3"])
def test_windows_begin_at_the_initial_one_and_live_as_long_as_their_flow(datapath: str) -> None:
    run = run_on(datapath)
    trace = traced(run)
    assert trace.cwnd_bytes.shape == (len(run.epochs.time_s), len(run.flows))
    assert np.array_equal(trace.time_s, run.epochs.time_s)
    pkts = trace.cwnd_bytes / trace.mss_bytes
    first = pkts[np.isfinite(pkts).argmax(axis=0), np.arange(len(run.flows))]
    assert first == pytest.approx(run.scenario.transport.initial_window_pkts, abs=2)
    assert np.nanmin(pkts) >= 1
    for flow, (start, finish) in enumerate(zip(run.flows.start_s, run.records.flows.finish_s, strict=True)):
        lives = np.isfinite(pkts[:, flow])
        assert not lives[trace.time_s < start].any()
        inside = (trace.time_s > start + 2e-4) & (trace.time_s < finish)  # after the handshake
        assert inside.any()
        assert lives[inside].all()


def test_watching_changes_nothing_and_may_be_of_some() -> None:
    run = run_on("packetsim")
    whole, some = traced(run), traced(run, flows=[2, 0])
    assert some.flows.tolist() == [2, 0]
    assert np.array_equal(some.cwnd_bytes, whole.cwnd_bytes[:, [2, 0]], equal_nan=True)


def test_a_run_that_comes_out_differently_is_refused() -> None:
    run = run_on("packetsim")
    finish_s = run.records.flows.finish_s.copy()
    finish_s[0] += 1e-9
    flows = replace(run.records.flows, finish_s=finish_s)
    with pytest.raises(ResultError, match="comes out differently now"):
        traced(replace(run, records=replace(run.records, flows=flows)))


def test_what_cannot_be_traced_is_named() -> None:
    run = run_on("packetsim")
    n = len(run.flows)
    with pytest.raises(ConfigError, match=rf"flows must be indices in \[0, {n}\)"):
        traced(run, flows=[n])
    for wrong, says in (([1.7], r"got \[1\.7\]"), ([True], r"got \[True\]"), (np.array([-1]), r"got \[-1\]")):
        with pytest.raises(ConfigError, match=says):
            traced(run, flows=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="made on packetsim, not on ns3"):
        trace_windows(run, load_datapath("ns3").load()(), FACTORY(run.controller, run.scenario))
    with pytest.raises(ConfigError, match="does not show windows"):
        trace_windows(replace(run, datapath="mm1"), Mm1Datapath(), FACTORY(run.controller, run.scenario))
