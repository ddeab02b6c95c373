# SPDX-License-Identifier: BSD-3-Clause
"""Every measure by worked arithmetic on a run that was made up."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict, kinds
from ncc.core.workload import Long, Permutation, Queries
from ncc.harness.controller import Controller
from ncc.harness.datapath import Records
from ncc.harness.run import Run
from ncc.metrics.fluid import fluid_fct_s
from ncc.study.measures import AnyMeasure, Ratio, measure_all
from tests.metrics.examples import epochs, flow_records, flow_table, port_records, rack
from tests.support.tables import table

QUERIES = Queries(fan_in=2, response_bytes=200, interval_s=0.05, sources="hosts", destinations="remotes")


def made_up(scenario: Scenario | None = None) -> Run:
    """Ten epochs of 10 ms; two hosts that send, the second ten times as fast in the second half; two queries."""
    scenario = scenario or rack(duration_s=0.1).replace(period_s=0.01, workload=(("ask", QUERIES),))
    goodput = np.array([[1e9, 1e9]] * 5 + [[1e9, 3e9]] * 5)
    queue = np.array([[0.0]] * 5 + [[1500.0 * i] for i in range(1, 6)])
    flows = flow_table([0.0, 0.001, 0.05, 0.05], [100, 100, 20_000_000, 100])
    return Run(
        scenario=scenario,
        controller=Controller(name="c"),
        datapath="made_up",
        seed=1,
        flow_seed=1,
        flows=flows,
        records=Records(
            flows=flow_records(
                [0.010, 0.012, 0.080, 0.070],
                sent_pkts=[10, 10, 70, 10],
                ce_pkts=[0, 5, 15, 5],
                timeouts=[0, 0, 0, 2],
                rtt_mean_s=[0.001, 0.003, math.nan, 0.002],  # type: ignore[list-item]
            ),
            ports=port_records(
                scenario,
                dropped_pkts={"tor->core": 3, "core->r0": 1},
                dropped_data_pkts={"tor->core": 3, "core->r0": 1},
                tx_pkts={"h0->tor": 150, "h1->tor": 50},
                queue_max_bytes={"tor->core": 9000, "core->r0": 3000},
            ),
        ),
        epochs=epochs(
            scenario,
            10,
            goodput_bps=goodput,
            rtt_s=np.array([[0.001, 0.005]] * 9 + [[0.004, 0.009]]),
            rtt_samples=np.array([[0, 0]] * 5 + [[10, 0]] * 4 + [[5, 5]]),
            uplink_throughput_bps=goodput.sum(axis=1, keepdims=True),
            uplink_queue_bytes=queue,
            uplink_queue_mean_bytes=queue / 2,
        ),
        started_at="",
        finished_at="",
        wall_s=0.0,
        cpu_s=0.0,
    )


def value(run: Run, **measure: Any) -> float:
    made: AnyMeasure = from_dict(kinds(AnyMeasure)[measure["kind"]], measure, "measure")
    made.fits("measure", run.scenario)
    return measure_all({"it": made}, run)["it"]


HALF = {"from_frac": 0.5}
PAYLOAD = 1500 / 1538


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ({"kind": "throughput", **HALF}, 4e9),
        ({"kind": "throughput", "port": "tor->core", "from_frac": 0.0, "until_frac": 0.5}, 2e9),
        ({"kind": "utilisation", **HALF}, 1.0 / PAYLOAD),
        ({"kind": "queue", **HALF}, 2250.0),
        ({"kind": "queue", "statistic": "p50", **HALF}, 4500.0),
        ({"kind": "queue", "statistic": "min", **HALF}, 1500.0),
        ({"kind": "queue_max"}, 9000.0),
        ({"kind": "queue_max", "ports": "core->*"}, 3000.0),
        ({"kind": "goodput", "hosts": "hosts", **HALF}, 4e9),
        ({"kind": "goodput", "hosts": "hosts", "each": True, **HALF}, 2e9),
        ({"kind": "goodput", "hosts": "hosts", "first": 1, **HALF}, 3e9),
        ({"kind": "jain", "hosts": "hosts", **HALF}, 16 / (2 * 10)),
        ({"kind": "jain", "hosts": "hosts", "from_frac": 0.0, "every_s": 0.05}, (1 + 16 / 20) / 2),
        ({"kind": "fct", "size": "small"}, (0.010 + 0.011 + 0.020) / 3),
        ({"kind": "fct", "size": "large", "statistic": "p99"}, 0.030),
        ({"kind": "fct", "size": 100}, (0.010 + 0.011 + 0.020) / 3),
        ({"kind": "fct", "size": 99}, math.nan),
        ({"kind": "query_time", "statistic": "max"}, 0.030),
        ({"kind": "query_timeouts"}, 0.5),
        ({"kind": "rtt"}, 0.002),
        ({"kind": "host_rtt", "hosts": "hosts"}, (40 * 0.001 + 5 * 0.004 + 5 * 0.009) / 50),
        ({"kind": "host_rtt", "hosts": "hosts", "first": 1, **HALF}, 0.009),
        ({"kind": "host_rtt", "hosts": "hosts", "until_frac": 0.5}, math.nan),
        ({"kind": "marked", "traffic": "ask"}, 0.25),
        ({"kind": "drops", "ports": ["tor->core"], "over": "dropped"}, 0.75),
        ({"kind": "drops", "ports": ["*->r0", "tor->*"]}, 4 / 200),
        # All that came to tor->core and core->r0 was dropped, and nothing came to core->tor.
        ({"kind": "drops", "ports": ["tor->core", "core->r0", "core->tor"], "over": "each"}, 2 / 3),
        ({"kind": "summary", "metric": "loss_frac"}, 4 / 100),
    ],
)
def test_by_hand(measure: dict[str, Any], expected: float) -> None:
    assert value(made_up(), **measure) == pytest.approx(expected, nan_ok=True)


def test_a_ratio_is_of_the_same_run_and_undefined_over_nothing() -> None:
    run = made_up()
    kind = kinds(AnyMeasure)
    both = {
        "fast": from_dict(kind["goodput"], {"hosts": "hosts", "first": 1, **HALF}, ""),
        "slow": from_dict(kind["goodput"], {"hosts": "hosts", "count": 1, **HALF}, ""),
        "nothing": from_dict(kind["queue"], {"until_frac": 0.5}, ""),
        "ratio": Ratio(over="fast", under="slow"),
        "undefined": Ratio(over="fast", under="nothing"),
    }
    found = measure_all(both, run)
    assert found["ratio"] == pytest.approx(3.0)
    assert math.isnan(found["undefined"])


def lossy(rtt_s: float, drops: tuple[int, ...]) -> Run:
    """The run with that RTT, and with drops in those epochs of 10 ms."""
    run = made_up()
    run.epochs.columns["rtt_s"][:] = rtt_s
    run.epochs.columns["uplink_dropped_pkts"][:, 0] = np.isin(np.arange(11), drops)
    return run


ONE: dict[str, Any] = {"hosts": "hosts", "count": 1, "from_frac": 0.0}


def test_packets_in_flight_are_goodput_times_rtt() -> None:
    run = lossy(0.02, ())
    assert value(run, kind="in_flight", hosts="hosts", **HALF) == pytest.approx(4e9 * 0.02 / 11680)
    least = {"each": True, "statistic": "min", "from_frac": 0.0}
    assert value(run, kind="in_flight", hosts="hosts", **least) == pytest.approx(1e9 * 0.02 / 11680)


def test_drops_within_two_round_trips_are_one_loss_event() -> None:
    """20 and 30 ms are one event, 90 ms another; 16,667 packets lie between them."""
    run = lossy(0.02, (2, 3, 9))
    p = 12000 / (4 * 2e7 + 3 * 4e7)
    assert value(run, kind="loss_rate", from_frac=0.0) == pytest.approx(p)
    for law in ("reno", "cubic"):
        expected = 1e9 * 0.02 / 11680 / math.sqrt(1.5 / p)
        assert value(run, kind="response", **ONE, law=law) == pytest.approx(expected)


def test_a_window_is_cubic_s_where_the_rfc_has_that_above_reno_s() -> None:
    """RFC 9438 section 5, over 45 ms at 1 / 21,667: 1.054 (RTT/p)^(3/4) is 184 packets, sqrt(1.5/p) is 180."""
    run = lossy(0.045, (1, 10))
    window = 1e9 * 0.045 / 11680
    assert window / value(run, kind="response", **ONE, law="cubic") == pytest.approx(183.9, abs=0.1)
    assert window / value(run, kind="response", **ONE, law="reno") == pytest.approx(180.3, abs=0.1)


@pytest.mark.parametrize("measure", [{"kind": "loss_rate"}, {"kind": "response", "law": "reno", **ONE}])
def test_one_loss_event_has_no_rate(measure: dict[str, Any]) -> None:
    assert math.isnan(value(lossy(0.02, (2, 3, 9)), **{**measure, **HALF}))


def test_endless_flows_have_neither_completion_time_nor_bound() -> None:
    long = Long(sources="hosts", destinations="remotes", flows=1)
    scenario = rack(duration_s=0.1).replace(period_s=0.01, workload=(("long", long),))
    assert math.isnan(value(made_up(scenario), kind="fct"))
    with pytest.raises(ConfigError, match="measure: scenario 'test' has endless flows"):
        value(made_up(scenario), kind="bound", sharing="fair")


def test_a_bound_is_of_the_run_s_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    run = made_up()
    # The run's flows are made up; the fluids are given to match them.
    monkeypatch.setattr("ncc.study.measures_of_flows.bound_fct_s", lambda *_: np.array([0.001, 0.002, 0.020, 0.006]))
    assert value(run, kind="bound", sharing="fair", size="small") == pytest.approx(0.003)
    assert value(run, kind="bound", sharing="srpt", statistic="max", traffic="ask") == 0.020
    monkeypatch.undo()
    drawn = run.scenario.flows(run.flow_seed)
    run = replace(run, flows=drawn)
    for sharing in ("fair", "srpt"):
        expected = fluid_fct_s(run.scenario, drawn, sharing)
        assert value(run, kind="bound", sharing=sharing) == expected.mean()


def test_a_window_without_an_epoch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no epoch ends in 0.51 to 0.55"):
        value(made_up(), kind="throughput", from_frac=0.51, until_frac=0.55)


@pytest.mark.parametrize(("measure", "said"), table(__file__, "refused.yaml")["measures"])
def test_what_the_scenario_lacks_is_refused_by_name(measure: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        value(made_up(), **measure)


def test_queries_are_needed_to_time_them() -> None:
    other = rack(duration_s=0.1).replace(period_s=0.01, workload=(("all", Permutation(hosts="hosts", size_bytes=1)),))
    with pytest.raises(ConfigError, match="must name one of the workload's queries"):
        value(made_up(other), kind="query_time")
