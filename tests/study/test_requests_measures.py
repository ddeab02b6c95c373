# SPDX-License-Identifier: BSD-3-Clause
"""Measures of requests by hand, from one small run."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from ncc.metrics.requests import qct_s
from ncc.study.measures import AnyMeasure, SentPackets, measure_all
from ncc.study.measures_of_flows import RequestEfficiency, RequestGoodput, RequestPackets, RequestsLate


def racks(**workload: Any) -> Scenario:
    """Two racks of two hosts; each of 3 requests asks the three others for 1,000 bytes."""
    ask = {
        "kind": "fan_out", "fan_in": 3, "answer_bytes": 1000, "requests": 3, "sources": "hosts",
        "destinations": "hosts",
    }  # fmt: skip
    return scenario_from_dict(
        {
            "name": "racks",
            "topology": {"kind": "leaf_spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 2, "host_rate_bps": 1e9},
            "duration_s": 0.01,
            "drain_s": None,
            "workload": {"it": workload or ask},
            "transport": {"handshake": False, "delayed_ack_pkts": 1},
        }
    )


def test_requests_are_counted_and_timed() -> None:
    scenario = racks()
    controller = Controller(name="newreno", stack=HostStack(transport="newreno"))
    run = run_once(PacketsimDatapath(), scenario, controller, Unlimited(), 1, flow_seed=1).require_valid()
    each_s = qct_s(run.flows, run.records.flows)
    measures: dict[str, AnyMeasure] = {
        "goodput": RequestGoodput(),
        "of_line": RequestEfficiency(),
        "packets": SentPackets(ports=("leaf*->spine*",)),
        "answers": RequestPackets(),
        "late": RequestsLate(deadline_s=float(np.median(each_s))),
        "up": SentPackets(ports=("leaf0->spine0", "leaf1->spine0")),
    }
    values = measure_all(measures, run)
    assert values["goodput"] == pytest.approx(8 * 9000 / each_s.sum())
    assert values["of_line"] == pytest.approx(values["goodput"] / 1e9)
    assert values["packets"] == values["up"]
    assert values["answers"] == 3
    assert values["late"] == pytest.approx(1 / 3), "two of three requests take at most the median"
    servers = run.flows.src[run.flows.graph.answer]  # type: ignore[union-attr]
    front_end = run.flows.dst[run.flows.graph.answer][0]  # type: ignore[union-attr]
    leaf = {
        host: scenario.network().host_link(host).a + scenario.network().host_link(host).b - host
        for host in {*servers, front_end}
    }
    far = np.mean([leaf[server] != leaf[front_end] for server in servers]) * 3
    assert values["packets"] == 4 * far, "a query, an answer, and an ACK of each"
    assert measures["of_line"].text(0.5) == "50.00"


@pytest.mark.parametrize("measure", [RequestGoodput(), SentPackets(ports=("*",))])
def test_without_requests_they_are_refused(measure: RequestGoodput | SentPackets) -> None:
    plain = racks(kind="fixed", flows=[{"start_s": 0.0, "src": "h0_0", "dst": "h1_0", "size_bytes": 1000}])
    with pytest.raises(ConfigError, match="scenario 'racks' has none"):
        measure.fits("measures.it", plain)
