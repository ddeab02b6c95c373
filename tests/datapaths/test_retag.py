# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of tags that change during a run, and the flows that are then delivered, on both simulators."""

import re
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack, retag
from ncc.harness.run import Run, run_once
from tests.datapaths.runs import SIMULATED, SIMULATORS, Simulator, same_records

NEVER, AT_ONCE = (10**9,) * 7, (1, 2, 3, 4, 5, 6, 7)


def crossing(**changes: object) -> Scenario:
    plain = {
        "name": "crossing",
        "topology": {
            "kind": "single_switch", "senders": 4, "receivers": 2, "rate_bps": 1e9, "delay_s": 1e-5,
            "buffer_bytes": 100_000, "mark_threshold_bytes": 30_000, "classes": 8,
        },
        "workload": {
            "it": {
                "kind": "poisson", "distribution": "websearch", "load_frac": 1.6, "sources": "senders",
                "destinations": "receivers",
            }
        },
        "duration_s": 0.2,
        "drain_s": 2.0,
        "period_s": 5e-3,
        "transport": {"recovery": "classic", "min_rto_s": 5e-3, "initial_rto_s": 5e-3},
    }  # fmt: skip
    return scenario_from_dict(plain | changes)


class Decides:
    """Thresholds by turns, one after the other."""

    def __init__(self, *turns: Any) -> None:
        self._turns = turns
        self.delivered: list[tuple[list[int], list[float]]] = []

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limits = np.full(scenario.n_agents, np.inf)

    def decide(self, measurement: Measurement) -> Decision:
        seen = measurement.delivered
        self.delivered.append((seen.size_bytes.tolist(), seen.took_s.tolist()))
        return Decision(self._limits, tag_params=self._turns[measurement.epoch % len(self._turns)])


def play(simulator: Simulator, limiter: Decides, scenario: Scenario | None = None, **stack: Any) -> Run:
    controller = Controller(name="it", stack=HostStack(**{"tags": "pias"} | stack))
    return run_once(simulator(), scenario or crossing(), controller, limiter, 1, flow_seed=1).require_valid()


def test_changes_are_the_same_to_the_nanosecond_on_both_simulators() -> None:
    limiters = [Decides(NEVER, AT_ONCE, None, (20, 50, 100, 0, 0, 0, 0)) for _ in SIMULATORS]
    ours, theirs = (play(each, limiter) for each, limiter in zip(SIMULATORS, limiters, strict=True))
    assert same_records(ours.records, theirs.records)
    assert limiters[0].delivered == limiters[1].delivered


@SIMULATED
def test_the_same_parameters_again_change_nothing_and_others_do(simulator: Simulator) -> None:
    given = HostStack(tags="pias", tag_params=tuple((f"after_{i}_pkts", i) for i in range(1, 8)))
    static = play(simulator, Decides(None), tag_params=given.tag_params)
    assert same_records(static.records, play(simulator, Decides(AT_ONCE)).records)
    assert same_records(static.records, play(simulator, Decides(AT_ONCE), tag_params=given.tag_params).records)
    assert not same_records(static.records, play(simulator, Decides(NEVER)).records)


@SIMULATED
def test_they_take_effect_as_late_as_limits_do(simulator: Simulator) -> None:
    late = crossing(decision_latency_s=2e-3)
    runs = [play(simulator, Decides(NEVER, AT_ONCE), each).records for each in (late, crossing())]
    assert not same_records(*runs)


@SIMULATED
def test_every_flow_is_told_as_delivered_once(simulator: Simulator) -> None:
    limiter = Decides(None)
    run = play(simulator, limiter)
    seen_bytes = [size for sizes, _ in limiter.delivered for size in sizes]
    order = np.argsort(run.records.flows.finish_s, kind="stable")
    n = len(seen_bytes)
    assert 0 < len(run.flows) - n < 10, "the last period is not decided on"
    assert seen_bytes == run.flows.size_bytes[order][:n].tolist()
    took_s = [took for each in limiter.delivered for took in each[1]]
    np.testing.assert_allclose(took_s, (run.records.flows.finish_s - run.flows.start_s)[order][:n], atol=1e-9)


@SIMULATED
def test_hosts_without_tags_tell_of_nothing(simulator: Simulator) -> None:
    limiter = Decides(None)
    play(simulator, limiter, tags="none")
    assert all(sizes == [] for sizes, _ in limiter.delivered)


@SIMULATED
@pytest.mark.parametrize(
    ("tags", "params", "said"),
    [
        ("none", AT_ONCE, "Decision.tag_params need tags: set stack.tags"),
        ("pias", (1, 2), "must have all 7 parameters of tags pias (after_1_pkts, "),
        ("pias", (-1, *AT_ONCE[1:]), "Parameter after_1_pkts of tags pias must be a whole number from 0 to"),
        ("pias", (1.5, *AT_ONCE[1:]), "Parameter after_1_pkts of tags pias must be a whole number from 0 to"),
    ],
)
def test_bad_parameters_are_refused_by_name(simulator: Simulator, tags: str, params: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        play(simulator, Decides(params), tags=tags)


def test_a_datapath_that_cannot_is_refused_by_name() -> None:
    class Kernel:
        name = "linux"

    with pytest.raises(ConfigError, match="datapath linux cannot change tags during a run: use packetsim or ns3"):
        retag(Kernel(), AT_ONCE)  # type: ignore[arg-type] # a datapath without the method
