# SPDX-License-Identifier: BSD-3-Clause
"""ICTCP's receivers: windows by worked arithmetic, and what they are for."""

from dataclasses import replace

import numpy as np

from ncc.core.measurement import Measurement, idle
from ncc.core.receivers import Edges, parts
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.harness.controller import IctcpLimit
from ncc.harness.ictcp import Ictcp
from ncc.harness.limiter import RateLimiter, Unlimited
from ncc.harness.run import run_once
from ncc.metrics.requests import qct_s, timeout_frac
from ncc.run.controllers import load_controller
from tests.datapaths.runs import SIMULATED, Simulator

MSS, PERIOD_S = 1460, 1e-4
"""Bytes that 1 Gbit/s carries in a period; ICTCP uses 11,250 of them."""


def incast(servers: int = 16, **changes: object) -> Scenario:
    plain = {
        "name": "incast",
        "topology": {
            "kind": "many_to_one", "senders": servers, "rate_bps": 1e9, "delay_s": 25e-6, "buffer_bytes": 100_000,
            "mark_threshold_bytes": 0,
        },
        "workload": {
            "it": {
                "kind": "fan_out", "fan_in": servers, "answer_bytes": 65_536, "requests": 3, "think_s": 1e-3,
                "sources": "senders", "destinations": "receiver",
            }
        },
        "duration_s": 0.01,
        "drain_s": None,
        "period_s": 2e-4,
        "neighbourhoods": "receivers",
        "transport": {"recovery": "classic", "initial_window_pkts": 2, "min_rto_s": 0.2, "initial_rto_s": 0.2},
    }  # fmt: skip
    return scenario_from_dict(plain | changes)


def made() -> Ictcp:
    """ICTCP of a period and an RTT of 100 us."""
    rule = IctcpLimit(rtt_s=PERIOD_S).build()
    rule.reset(incast(period_s=PERIOD_S), 1)
    return rule


HOSTS = incast().network().hosts


def at(received: dict[int, float]) -> Measurement:
    """Flows to the first host, by sender: payload that has arrived."""
    n = len(received)
    src, zeros = np.array([HOSTS[sender] for sender in received], np.int64), np.zeros(n)
    edges = Edges(
        src,
        np.full(n, HOSTS[0], np.int64),
        np.ones(n, np.int64),
        zeros,
        zeros,
        np.array(list(received.values())),
        zeros,
    )
    return replace(idle(incast().n_agents, 1), edges=edges)


def told(rule: Ictcp, received: dict[int, float]) -> dict[int, int]:
    """Windows that are told in a period, by sender."""
    limits, grants = parts(rule.decide(at(received)))
    assert np.isinf(limits).all()
    assert grants is not None
    grants.check(incast().network())
    assert (grants.dst == HOSTS[0]).all()
    return {HOSTS.index(src): window for src, window in zip(grants.src.tolist(), grants.window_pkts, strict=True)}


def test_windows_double_while_the_quota_lasts_and_then_rise_by_one() -> None:
    rule, got = made(), 0.0
    words = []
    for came in (0, 2 * MSS, 4 * MSS, 4 * MSS, 1 * MSS, 4 * MSS):  # of each of the two, in a period
        got += came
        words.append(told(rule, {1: got, 2: got}))
    assert words == [
        {1: 2, 2: 2},  # a connection begins with two packets
        {1: 4, 2: 4},  # all 11,250 bytes are free: both double
        {},
        {},  # 4 packets of each used the line: no quota
        {},
        {1: 5, 2: 5},  # after that, one packet at a time
    ]


def test_a_quota_is_given_out_once() -> None:
    rule = made()
    told(rule, dict.fromkeys(range(1, 8), 0.0))
    assert told(rule, dict.fromkeys(range(1, 8), 2.0 * MSS)) == {1: 4, 2: 4, 3: 4}, "2 packets of each: 8,760"


def test_a_window_falls_after_three_slots_in_which_less_than_half_of_it_comes() -> None:
    rule = made()
    words = [told(rule, {1: got}) for got in (0.0, 2.0 * MSS, 2.0 * MSS, 6.0 * MSS)]
    assert words[-1] == {1: 8}
    got, seen = 6.0 * MSS, []
    for _ in range(3):
        seen.append(told(rule, {1: got}))
        got += 3 * MSS
        seen.append(told(rule, {1: got}))
    assert seen == [{}, {}, {}, {}, {}, {1: 7}]


def test_large_windows_fall_where_little_is_free() -> None:
    rule = made()
    for got in (0.0, 2.0 * MSS):
        told(rule, {1: got})
    assert told(rule, {1: 9.0 * MSS, 2: 0.0}) == {1: 3, 2: 2}, "7 packets leave less than a fifth of the line"


@SIMULATED
def test_sixteen_answers_of_64_kb_fill_the_line_without_a_timeout(simulator: Simulator) -> None:
    def goodput_bps(name: str, limiter: RateLimiter) -> tuple[float, float]:
        run = run_once(simulator(), incast(), load_controller(name), limiter, 1, flow_seed=1).require_valid()
        payload_bits = 8 * 3 * 16 * 65_536
        took_s = qct_s(run.flows, run.records.flows).sum()
        return payload_bits / took_s, timeout_frac(run.flows, run.records.flows)

    ours, theirs = goodput_bps("ictcp", IctcpLimit().build()), goodput_bps("newreno", Unlimited())
    assert ours[0] > 850e6
    assert ours[1] == 0
    assert theirs[0] < 120e6
