# SPDX-License-Identifier: BSD-3-Clause
"""Flowtune: NED's prices by worked arithmetic and against scipy, the allocator's words, and what they are for."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement, idle
from ncc.core.receivers import Edges, parts
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import from_dict
from ncc.harness.controller import FlowtuneLimit
from ncc.harness.flowtune import Flowtune, Ned, bundles
from ncc.harness.limiter import RateLimiter, Unlimited
from ncc.harness.run import run_once
from ncc.metrics.fct import fct_s
from ncc.run.controllers import load_controller
from tests.datapaths.runs import SIMULATED, Simulator

HOST_BPS, SPINE_BPS = 1e9, 2e9


def fabric(**changes: object) -> Scenario:
    plain = {
        "name": "fabric",
        "topology": {
            "kind": "leaf_spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4, "host_rate_bps": HOST_BPS,
            "spine_rate_bps": SPINE_BPS, "delay_s": 5e-6, "buffer_bytes": 250_000, "mark_threshold_bytes": 30_000,
        },
        "workload": {
            "it": {
                "kind": "poisson", "distribution": "hadoop", "load_frac": 4.0, "sources": "hosts",
                "destinations": "hosts", "link": "leaf0->h0_0",
            }
        },
        "duration_s": 0.02,
        "drain_s": 1.0,
        "period_s": 1e-4,
        "neighbourhoods": "receivers",
        "transport": {"recovery": "modern", "min_rto_s": 5e-3, "initial_rto_s": 5e-3},
    }  # fmt: skip
    return scenario_from_dict(plain | changes)


def converged(ned: Ned, routes: IntArray, weight: FloatArray, line: FloatArray, rounds: int) -> FloatArray:
    rate = np.zeros(len(routes))
    for _ in range(rounds):
        rate = ned.round(routes, weight, line)
    return ned.normalised(rate, routes)


def exact(capacity: FloatArray, routes: IntArray, weight: FloatArray) -> FloatArray:
    """Rates [n_flows] that maximise sum w log x, by the dual problem and L-BFGS-B."""
    on = np.zeros((len(capacity), len(routes)))
    np.put_along_axis(on, routes.T, 1, axis=0)
    on, limits = on[:-1], capacity[:-1]

    def dual(price: FloatArray) -> tuple[float, FloatArray]:
        cost = np.maximum(on.T @ price, 1e-12)
        return float(price @ limits - weight @ np.log(cost)), limits - on @ (weight / cost)

    tight = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10}
    start, bounds = np.ones(len(limits)), [(1e-9, None)] * len(limits)
    best = minimize(dual, start, jac=True, method="L-BFGS-B", bounds=bounds, options=tight)
    return np.asarray(weight / (on.T @ best.x))


def random_problem(seed: int, leaves: int, hosts: int, flows: int) -> tuple[FloatArray, IntArray, FloatArray]:
    """Capacities, routes and weights of flows between random hosts of a fabric of leaves and 4 spines."""
    rng, spines, n = np.random.default_rng(seed), 4, leaves * hosts
    capacity = np.r_[np.ones(2 * n), np.full(2 * leaves * spines, hosts / 4), np.inf]
    src, spine = rng.integers(n, size=flows), rng.integers(spines, size=flows)
    dst = (src + rng.integers(1, n, size=flows)) % n
    far = src // hosts != dst // hosts
    up = np.where(far, 2 * n + src // hosts * spines + spine, len(capacity) - 1)
    down = np.where(far, 2 * n + (leaves + dst // hosts) * spines + spine, len(capacity) - 1)
    return capacity, np.column_stack([src, up, down, n + dst]), rng.integers(1, 4, size=flows).astype(float)


def test_one_round_is_the_step_of_the_paper() -> None:
    """Link of capacity 1, two flows of line rate 1 and weights 1 and 3, price 8: x = 1/8 and 3/8, |H| = 4/64."""
    ned = Ned(np.array([1.0, np.inf]), gamma=0.4)
    ned.price[0] = 8.0
    routes, weight = np.array([[0, 1], [0, 1]]), np.array([1.0, 3.0])
    assert ned.round(routes, weight, np.ones(2)).tolist() == [1 / 8, 3 / 8]
    assert ned.price[0] == pytest.approx(8 - 0.4 * (1 - 4 / 8) / (4 / 64))
    assert ned.price[1] == 0, "the link that stands for none costs nothing"


def test_prices_rise_from_zero_and_unused_links_are_free() -> None:
    """Without prices both send at their line rate: load 2, |H| = 2, so the price is 0.4 (2 - 1) / 2."""
    ned = Ned(np.array([1.0, 1.0, np.inf]), gamma=0.4)
    ned.price[1] = 5.0
    routes = np.array([[0, 2], [0, 2]])
    assert ned.round(routes, np.ones(2), np.ones(2)).tolist() == [1, 1]
    assert ned.price.tolist() == pytest.approx([0.2, 0, 0])


def test_normalised_rates_fit_the_worst_link_of_each_flow() -> None:
    """Links of 1 and 2: flow 0 on the first, flow 1 on both, flow 2 on the second; loads 1.5 and 4."""
    ned = Ned(np.array([1.0, 2.0, np.inf]), gamma=0.4)
    rate = ned.normalised(np.array([0.5, 1.0, 3.0]), np.array([[0, 2], [0, 1], [1, 2]]))
    assert rate.tolist() == pytest.approx([0.5 / 1.5, 1 / 2, 3 / 2])


@pytest.mark.parametrize(
    ("problem", "rounds"), [((2, 4, 10), 100), ((8, 16, 200), 400), ((8, 16, 2000), 2000)], ids=["10", "200", "2000"]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rates_are_those_of_scipy(problem: tuple[int, int, int], rounds: int, seed: int) -> None:
    capacity, routes, weight = random_problem(seed, *problem)
    rate = converged(Ned(capacity, 0.4), routes, weight, np.ones(len(routes)), rounds)
    np.testing.assert_allclose(rate, exact(capacity, routes, weight), rtol=1e-3)


def test_rates_are_within_a_percent_of_the_new_optimum_twenty_rounds_after_an_arrival() -> None:
    capacity, routes, weight = random_problem(0, 2, 4, 10)
    ned, line = Ned(capacity, 0.4), np.ones(10)
    converged(ned, routes[:9], weight[:9], line[:9], 200)
    np.testing.assert_allclose(converged(ned, routes, weight, line, 20), exact(capacity, routes, weight), rtol=1e-2)


def test_equal_ways_are_one_link() -> None:
    network = fabric().network()
    found = bundles(network)
    near, far = found.routes(np.array(network.hosts[:1] * 2), np.array([network.hosts[1], network.hosts[4]]))
    assert found.capacity_bps[near].tolist() == [HOST_BPS, np.inf, np.inf, HOST_BPS]
    assert found.capacity_bps[far].tolist() == [HOST_BPS, 2 * SPINE_BPS, 2 * SPINE_BPS, HOST_BPS]
    assert near[0] == far[0], "both begin at the same link"
    assert len(found.capacity_bps) == 2 * 8 + 4 + 1


def at(pairs: Sequence[tuple[int, int, int]], age_s: float, time_s: float = 0.0) -> Measurement:
    """Flows between hosts as (source, destination, number)."""
    hosts = fabric().network().hosts
    src, dst, flows = np.array(pairs, np.int64).reshape(-1, 3).T
    zeros = np.zeros(len(pairs))
    edges = Edges(np.array(hosts)[src], np.array(hosts)[dst], flows, zeros, zeros, zeros, np.full(len(pairs), age_s))
    return replace(idle(fabric().n_agents, 2), edges=edges, time_s=time_s)


def told(rule: Flowtune, *pairs: tuple[int, int, int], age_s: float = 1.0) -> dict[tuple[int, int], float]:
    """Rates in Gbit/s that are told in a period, by source and destination."""
    hosts = fabric().network().hosts
    limits, grants = parts(rule.decide(at(pairs, age_s)))
    assert np.isinf(limits).all()
    assert grants is not None
    grants.check(fabric().network())
    ends = zip(grants.src.tolist(), grants.dst.tolist(), strict=True)
    return {
        (hosts.index(src), hosts.index(dst)): round(rate_bps / 1e9, 3)
        for (src, dst), rate_bps in zip(ends, grants.rate_bps.tolist(), strict=True)
    }


def made(**settings: float) -> Flowtune:
    rule = FlowtuneLimit(**settings, rounds=200).build()
    rule.reset(fabric(), 1)
    return rule


def test_a_pair_is_told_its_share_once_and_again_when_it_changes() -> None:
    rule = made()
    assert told(rule, (1, 0, 1)) == {(1, 0): 0.97}, "all but the headroom"
    assert told(rule, (1, 0, 1)) == {}, "nothing has changed"
    assert told(rule, (1, 0, 1), (2, 0, 3)) == {(1, 0): 0.242, (2, 0): 0.728}, "1 and 3 flows share a link"
    assert told(rule, (1, 0, 1), (2, 0, 3), (3, 7, 1)) == {(3, 7): 0.97}
    assert told(rule) == {}
    assert told(rule, (1, 0, 1)) == {(1, 0): 0.97}, "a pair that was gone is told again"
    assert told(rule, (1, 0, 1), age_s=5e-5) == {(1, 0): 0.97}, "and so is one with a new flow"


def test_shares_are_proportionally_fair() -> None:
    """A flow over two full links gets a third of each: maximising log x + 2 log(C - x) gives x = C / 3."""
    shares = told(made(use_frac=1.0), (1, 0, 1), (2, 0, 1), (1, 3, 1))
    assert shares == {(1, 0): 0.333, (2, 0): 0.667, (1, 3): 0.667}


def test_words_below_the_tolerance_are_not_sent() -> None:
    rule = made(tolerance_frac=0.6)
    told(rule, (1, 0, 1))
    assert told(rule, (1, 0, 1), (2, 0, 1)) == {(2, 0): 0.485}, "a fall by a half is less than 0.6"


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": 1.5}, "gamma"),
        ({"rounds": 0}, "rounds"),
        ({"use_frac": 1.1}, "use_frac"),
        ({"tolerance_frac": -0.1}, "tolerance_frac"),
        ({"gama": 0.4}, "gama"),
    ],
)
def test_bad_settings_are_refused_by_name(plain: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        from_dict(FlowtuneLimit, plain, "limit")


@SIMULATED
def test_short_flows_wait_less_than_under_dctcp(simulator: Simulator) -> None:
    def p99_s(name: str, limiter: RateLimiter, scenario: Scenario) -> float:
        run = run_once(simulator(), scenario, load_controller(name), limiter, 1, flow_seed=1).require_valid()
        took_s = fct_s(run.flows, run.records.flows, float(run.epochs.time_s[-1]))
        return float(np.quantile(took_s[run.flows.size_bytes <= 1460], 0.99))

    theirs = p99_s("dctcp", Unlimited(), fabric(neighbourhoods="uplink", period_s=5e-3))
    assert p99_s("flowtune", FlowtuneLimit().build(), fabric()) < 0.7 * theirs
