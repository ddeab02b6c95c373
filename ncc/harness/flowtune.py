# SPDX-License-Identifier: BSD-3-Clause
"""Flowtune (Perry et al., NSDI 2017): one allocator sets the rates of all flows.

The rates maximise the sum of log(rate) over all flows: they are proportionally fair. Section numbers are the paper's.
Its text was not at hand beyond the abstract, so equations and constants are from memory.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision, Grants
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology

NEVER_SENT = 0.0


class Ned:
    """Prices of links by Newton's method with the exact diagonal of the Hessian (NED, section 4).

    A flow of weight w and least line rate c sends x = min(w / rho, c), where rho is the sum of the prices on its route.
    With the load L of a link (the sum of its flows' x) and its capacity C, one round sets its price to

        p = max(p - gamma G / |H|, 0),   G = C - L,   |H| = sum of x^2 / w over its flows

    since dx/drho = -w / rho^2 = -x^2 / w. A link without flows has price 0. A flow that sends at its line rate c counts
    in H with x = c, so that prices rise from 0 too.

    Args:
        capacity: [n_links] capacities, in any unit that is also that of the flows' line rates. The last link stands for
            none, in routes that are shorter than others; its capacity is inf.
        gamma: step size, above 0; the paper's is 0.4.
    """

    def __init__(self, capacity: FloatArray, gamma: float) -> None:
        self._capacity, self._gamma = np.asarray(capacity, np.float64), gamma
        self.price: FloatArray = np.zeros(len(self._capacity))
        """Prices [n_links]."""

    def round(self, routes: IntArray, weight: FloatArray, line: FloatArray) -> FloatArray:
        """Update all prices once; return rates [n_flows], which may load a link beyond its capacity.

        Args:
            routes: [n_flows, n_hops] links of each flow.
            weight: [n_flows] weights, above 0.
            line: [n_flows] line rates.
        """
        rate: FloatArray = weight / np.maximum(self.price[routes].sum(axis=1), weight / line)
        curve = self._sums(routes, rate * rate / weight)
        used = curve > 0
        step = self._gamma * (self._sums(routes, rate) - self._capacity)[used] / curve[used]
        self.price[~used] = 0.0
        self.price[used] = np.maximum(self.price[used] + step, 0.0)
        return rate

    def normalised(self, rate: FloatArray, routes: IntArray) -> FloatArray:
        """Divide each rate by the largest ratio of load to capacity on its route (F-NORM, section 4.2)."""
        ratio = self._sums(routes, rate) / self._capacity
        worst: FloatArray = ratio[routes].max(axis=1)
        return rate / worst

    def _sums(self, routes: IntArray, of: FloatArray) -> FloatArray:
        each = np.repeat(of, routes.shape[1])
        return np.bincount(routes.ravel(), each, minlength=len(self._capacity)).astype(np.float64)


class Bundles(NamedTuple):
    """Links of a network for the allocator. Parallel paths of equal length are one link, as ECMP spreads flows evenly.

    A route is the host's link up, then bundles between switches, then the link down. Nodes are rows of all columns.
    """

    capacity_bps: FloatArray
    """[n_links] rates; that of the last, which stands for no link, is inf."""
    up: IntArray
    """[n_nodes] link from a host."""
    down: IntArray
    """[n_nodes] link to a host."""
    switch: IntArray
    """[n_nodes] row of a host's switch in `between`."""
    between: IntArray
    """[n_switches, n_switches, n_hops] links from a host's switch to another's."""

    def routes(self, src: IntArray, dst: IntArray) -> IntArray:
        """Return the links [n, n_hops + 2] between hosts [n]."""
        middle = self.between[self.switch[src], self.switch[dst]]
        return np.column_stack([self.up[src], middle, self.down[dst]])


def bundles(network: Topology) -> Bundles:
    """Find the links of a network.

    Raises:
        ConfigError: a host has no switch, or a port is in two bundles, so that flows do not spread evenly.
    """
    n, hosts = len(network.nodes), network.hosts
    up, down, switch = np.zeros((3, n), np.int64)
    rates: list[float] = []
    rows: dict[int, int] = {}
    for host in hosts:
        port = network.down_port(host)
        link = network.links[port // 2]
        up[host], down[host] = len(rates), len(rates) + 1
        switch[host] = rows.setdefault(link.b if link.a == host else link.a, len(rows))
        rates += [network.port_rate_bps(port)] * 2
    links: dict[tuple[int, ...], int] = {}
    paths: dict[tuple[int, int], list[int]] = {}
    owner: dict[int, tuple[int, ...]] = {}
    for (a, row_a), (b, row_b) in product(rows.items(), repeat=2):
        hops = [tuple(ports.tolist()) for ports in network.routes.hops(a, b)] if a != b else []
        for ports in hops:
            for port in ports:
                if owner.setdefault(port, ports) != ports:
                    raise ConfigError(
                        f"Flowtune treats paths of equal length as one link, and in this network port "
                        f"{network.port_name(port)} is one path of {len(owner[port])} for some flows and of "
                        f"{len(ports)} for others: use a topology such as leaf_spine or fat_tree"
                    )
            if ports not in links:
                links[ports] = len(rates)
                rates.append(sum(network.port_rate_bps(port) for port in ports))
        paths[row_a, row_b] = [links[ports] for ports in hops]
    none = len(rates)
    between = np.full((len(rows), len(rows), max(map(len, paths.values()))), none)
    for pair, route in paths.items():
        between[pair][: len(route)] = route
    return Bundles(np.array([*rates, np.inf]), up, down, switch, between)


class Flowtune:
    """Flowtune's allocator as a limiter: once per period it sends rates to the senders of pairs of hosts.

    It learns of flows when their receivers do (`ncc.core.receivers.Edges`), and sends rates as grants. So its delay is
    that of an allocator in the network: the path of the flow's first packet, the wait for the end of the period, and
    the path of the grant. The flows of a pair are one flow of that weight. A pair without a grant sends as its
    transport decides.

    Each period does `rounds` of NED on `use_frac` of all rates, then F-NORM. A sender gets a grant if its rate differs
    from that of its last grant by more than `tolerance_frac`, or if the pair has a new flow (section 3). A lost grant
    is not repeated.

    Args:
        gamma: step size of NED.
        rounds: rounds of NED per period.
        use_frac: share of the links' rates that is given out; rates count IP packets, and frames add to them.
        tolerance_frac: change of a rate, relative to the last grant, above which a new grant is sent.
    """

    def __init__(self, *, gamma: float, rounds: int, use_frac: float, tolerance_frac: float) -> None:
        self._gamma, self._rounds, self._use, self._tolerance = gamma, rounds, use_frac, tolerance_frac

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        self._bundles, self._n, self._period_s = bundles(network), len(network.nodes), scenario.period_s
        self._limits = np.full(scenario.n_agents, np.inf)
        capacity_bps = self._use * self._bundles.capacity_bps
        self._unit_bps = float(capacity_bps[:-1].max())
        self._capacity = capacity_bps / self._unit_bps
        self._ned = Ned(self._capacity, self._gamma)
        self._keys, self._sent_bps = np.zeros(0, np.int64), np.zeros(0)

    def decide(self, measurement: Measurement) -> Decision:
        edges = measurement.edges
        key = edges.src * self._n + edges.dst
        order = np.argsort(key)
        key, src, dst = key[order], edges.src[order], edges.dst[order]
        routes, weight = self._bundles.routes(src, dst), edges.flows[order].astype(np.float64)
        line = self._capacity[routes[:, 0]]
        rate = np.zeros(len(key))
        for _ in range(self._rounds):
            rate = self._ned.round(routes, weight, line)
        rate_bps = np.minimum(self._ned.normalised(rate, routes), line) * self._unit_bps
        sent_bps = self._last_sent(key)
        sent_bps[edges.age_s[order] < self._period_s] = NEVER_SENT  # its gate may be new
        moved = np.abs(rate_bps - sent_bps) > self._tolerance * sent_bps
        self._keys, self._sent_bps = key, np.where(moved, rate_bps, sent_bps)
        n = int(moved.sum())
        grants = Grants(
            src=src[moved],
            dst=dst[moved],
            start_s=np.full(n, measurement.time_s),
            rate_bps=rate_bps[moved],
            window_pkts=np.zeros(n, np.int64),
        )
        return Decision(self._limits, grants)

    def _last_sent(self, key: IntArray) -> FloatArray:
        """Return the rates [n] of the last grants of these pairs, NEVER_SENT for new ones; both keys are sorted."""
        if not len(self._keys):
            return np.full(len(key), NEVER_SENT)
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[at] == key, self._sent_bps[at], NEVER_SENT)
