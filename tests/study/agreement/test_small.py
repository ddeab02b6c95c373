# SPDX-License-Identifier: BSD-3-Clause
"""packetsim and ns-3 on cases without chance: every flow, number by number."""

import pytest

from ncc.baselines.registry import controllers
from ncc.core.errors import ConfigError
from ncc.envs.make import datapath_factory
from ncc.study.agreement.small import SMALL_CASES, Row, SmallCase, compare_small, inside
from tests.support.fluid import FluidDatapath


def row(fct_s: tuple[float, float] = (1.0, 1.0), retransmitted: tuple[int, int] = (0, 0)) -> Row:
    return {"fct_s": fct_s, "retransmitted_pkts": retransmitted, "timeouts": (0, 0), "ce_pkts": (0, 0)}


@pytest.mark.parametrize("controller", controllers())
@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.name)
def test_every_flow_agrees(case: SmallCase, controller: str) -> None:
    rows = list(compare_small(datapath_factory("packetsim")(), datapath_factory("ns3")(), [controller], [case]))
    assert len(rows) == len(case.scenario.flows(1))
    assert [row for row in rows if not row["inside"]] == []


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.name)
def test_a_case_shows_what_it_is_for(case: SmallCase) -> None:
    ns3 = datapath_factory("ns3")()
    (rows,) = [list(compare_small(ns3, ns3, ["newreno"], [case]))]
    retransmitted, timeouts, marks = (
        sum(row[name][0] for row in rows) for name in ("retransmitted_pkts", "timeouts", "ce_pkts")
    )
    drops = sum(fault.kind == "drop" for fault in case.faults)
    assert (retransmitted > 10) if case.name == "overflow" else (retransmitted == drops)
    assert timeouts == (case.name == "tail_loss") or case.name == "overflow"
    forced = any(fault.kind == "mark" for fault in case.faults)
    assert (marks == 1) if forced else ((marks > 0) == (case.name in ("one_bottleneck", "two_share", "four_to_one")))
    assert all(row["inside"] for row in rows)


def test_bounds_are_inclusive_and_each_counts() -> None:
    assert inside(row())
    assert inside(row(fct_s=(1.0099, 1.0)))
    assert not inside(row(fct_s=(1.0101, 1.0)))
    assert not inside(row(fct_s=(0.98, 1.0)))
    assert inside(row(retransmitted=(3, 2)))
    assert not inside(row(retransmitted=(2, 4)))


def test_a_datapath_without_faults_is_refused() -> None:
    (case,) = (case for case in SMALL_CASES if case.name == "one_drop")
    with pytest.raises(ConfigError, match="'fluid' cannot drop a packet"):
        list(compare_small(FluidDatapath(), FluidDatapath(), ["dctcp"], [case]))
