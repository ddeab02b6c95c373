# SPDX-License-Identifier: BSD-3-Clause
"""Completion times in a fluid model: flows without packets, queues or windows, and senders that know all at once.

At every moment each flow has a rate, and the rates of the flows through a port add up to at most its line rate. There
are four ways to share ports:

- ``fair``: max-min fair sharing between flows (Bertsekas and Gallager, Data Networks, section 6.5.2), as a perfectly
  fair transport would give.
- ``srpt``: shortest remaining first over the whole network, with perfect knowledge: flows take what is left of their
  path in the order of their remaining bytes. On a single bottleneck nothing has a smaller mean completion time
  (Schrage, Operations Research 1968), so it is a bound. In a network it is only the usual yardstick (pFabric, SIGCOMM
  2013, section 3): behind hosts slower than their uplink, an order that looks ahead can do slightly better.
- ``attained`` and ``services``: as ``srpt``, with the ranks of `ncc.metrics.ranks` in place of remaining bytes. Such a
  scheduler sees the bytes that flows have sent and written, and nothing beyond. They bound what can be done without
  sizes.

A flow's completion time is its ideal FCT (`ncc.metrics.fct`) plus the time that sharing costs it, so that a flow that
is alone has exactly its ideal FCT. Only data takes capacity; ACKs are not counted. Among several paths of equal cost,
only the ports that all of them have in common hold a flow back, as if the load were spread perfectly over the others.
If flows wait at one port while another port is the bottleneck of their ideal times, the two times are added; a real
network may overlap them and be faster.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ncc.core.distributions import SizeDistribution, distribution
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, FlowTable, IntArray
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES
from ncc.core.workload import Poisson, has_requests
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.ranks import WRITTEN_BYTES, attained_ranks, gittins_ranks, levels

Sharing = Literal["fair", "srpt", "attained", "services"]
LEAST_BITS = 1e-3
"""Remainder of a flow, in bits, that counts as nothing, because of rounding."""


def unbounded(scenario: Scenario) -> str:
    """Reason why the flows of a scenario have no bounds, as a clause; empty if they have some."""
    if any(traffic.endless for _, traffic in scenario.workload):
        return "has endless flows, which have no completion time"
    if has_requests(scenario.workload):
        return "has requests, whose flows start when others end, so their completion times have no bounds"
    return ""


def fluid_fct_s(scenario: Scenario, flows: FlowTable, sharing: Sharing) -> FloatArray:
    """Completion time of every flow [n_flows] in seconds under one way to share the network.

    Raises:
        ConfigError: the scenario has no bounds (`unbounded`).
    """
    if why := unbounded(scenario):
        raise ConfigError(f"scenario {scenario.name!r} {why}")
    network = scenario.network()
    wire_bits, ports = _wire_bits(scenario, flows), _ports(network, flows)
    capacity_bps = np.array([network.port_rate_bps(port) for port in range(2 * len(network.links))])
    alone_s = wire_bits / np.array([capacity_bps[mine].min() for mine in ports])
    stages = _stages(scenario, flows, wire_bits, sharing)
    took_s = _run(flows.start_s, wire_bits, ports, capacity_bps, stages, fair=sharing == "fair")
    # A flow that is never held back takes as long as alone; rounding may make it slightly faster.
    return np.asarray(ideal_fct_s(scenario, flows) + np.maximum(took_s - alone_s, 0.0))


def _wire_bits(scenario: Scenario, flows: FlowTable) -> FloatArray:
    transport = scenario.transport
    packets = -(-flows.size_bytes // transport.mss_bytes)
    overhead_bytes = packets * (HEADER_BYTES + transport.frame_overhead_bytes)
    return np.asarray((flows.size_bytes + overhead_bytes) * float(BITS_PER_BYTE))


def _ports(network: Topology, flows: FlowTable) -> list[IntArray]:
    """Directed ports of each flow that all its shortest paths have in common."""
    ends = zip(flows.src.tolist(), flows.dst.tolist(), strict=True)
    return [network.routes.certain_ports(src, dst) for src, dst in ends]


@dataclass(frozen=True)
class Stages:
    """The stages that flows go through; within a stage a flow's rank is constant, or is its remaining bits."""

    first: IntArray
    """Number of each flow's first stage, [n_flows]; its other stages follow."""
    until_bits: FloatArray
    """Remaining bits of the flow at which a stage ends, [n_stages]; 0 in a flow's last stage."""
    rank_bits: FloatArray
    """Rank of the flow in a stage, [n_stages], the lowest is served first; NaN: its remaining bits."""


def _stages(scenario: Scenario, flows: FlowTable, wire_bits: FloatArray, sharing: Sharing) -> Stages:
    """Make the stages of flows: one per flow, unless the scheduler learns sizes only while flows are sent."""
    n, size = len(flows), flows.size_bytes
    if sharing in ("fair", "srpt"):
        return Stages(np.arange(n), np.zeros(n), np.full(n, np.nan))
    known = levels(float(size.max(initial=1)))
    ranks = {}
    for service in np.unique(flows.traffic).tolist():
        traffic = scenario.workload[service][1]
        if isinstance(traffic, Poisson):
            sizes = distribution(traffic.distribution)
        else:  # each of its flows has a size that the workload names
            sizes = SizeDistribution.of(size[flows.traffic == service])
        ranks[service] = attained_ranks(known) if sharing == "attained" else gittins_ranks(known, sizes)
    hidden = np.searchsorted(known, size)  # levels that a flow goes through before its end is written
    first = np.concatenate([[0], np.cumsum(hidden + 1)])
    until, rank = np.zeros(first[-1]), np.full(first[-1], np.nan)
    for flow in np.flatnonzero(hidden):
        here, bits = slice(first[flow], first[flow + 1] - 1), wire_bits[flow] / size[flow]
        written = np.append(known[1 : hidden[flow]], size[flow])
        until[here] = (size[flow] - (written - WRITTEN_BYTES)) * bits
        rank[here] = ranks[flows.traffic[flow]][: hidden[flow]] * bits
    return Stages(first[:-1], until, rank)


def _run(
    start_s: FloatArray,
    wire_bits: FloatArray,
    ports: list[IntArray],
    capacity_bps: FloatArray,
    stages: Stages,
    *,
    fair: bool,
) -> FloatArray:
    """Compute the seconds from arrival to the last bit of every flow.

    Time counts from when the network was last idle, so that late flows are as exact as early ones. Every step admits a
    flow or ends a stage of one, however short the step is.
    """
    n, left, took_s = len(start_s), wire_bits.copy(), np.full(len(start_s), np.nan)
    paths, capacity_bps = _table(ports, capacity_bps)
    arrivals = np.argsort(start_s, kind="stable")
    sorted_s = start_s[arrivals]
    since_s, idle_s, now_s = sorted_s, 0.0, 0.0
    active, arrived, stage = np.zeros(0, dtype=np.int64), 0, stages.first.copy()
    while arrived < n or len(active):
        if not len(active):
            idle_s, now_s = float(sorted_s[arrived]), 0.0
            since_s = sorted_s - idle_s
        upto = int(np.searchsorted(since_s, now_s, side="right"))
        active, arrived = np.concatenate([active, arrivals[arrived:upto]]), upto
        mine, at = paths[active], stage[active]
        rank_bits = stages.rank_bits[at]
        key = np.where(np.isnan(rank_bits), left[active], rank_bits)
        rate_bps = _fair(mine, capacity_bps) if fair else _srpt(mine, capacity_bps, key)
        until = stages.until_bits[at]
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts_s = (left[active] - until) / rate_bps
        step_s = float(lasts_s.min())
        ends = lasts_s <= step_s
        if arrived < n and since_s[arrived] - now_s < step_s:
            step_s, ends[:] = float(since_s[arrived]) - now_s, False
            now_s = float(since_s[arrived])
        else:
            now_s += step_s
        left[active] -= rate_bps * step_s
        ends |= left[active] - until <= LEAST_BITS + 1e-12 * wire_bits[active]
        left[active[ends]] = until[ends]
        stage[active[ends]] += 1
        over = ends & (until == 0)
        took_s[active[over]] = now_s - (start_s[active[over]] - idle_s)
        active = active[~over]
    return took_s


def _table(ports: list[IntArray], capacity_bps: FloatArray) -> tuple[IntArray, FloatArray]:
    """Paths as a table [n_flows, longest] of indices into the ports that flows cross, and the ports' capacity.

    Rows are filled up with one extra port of infinite capacity.
    """
    used, at = np.unique(np.concatenate([*ports, np.zeros(0, dtype=np.int64)]), return_inverse=True)
    length = np.array([len(path) for path in ports], dtype=np.int64)
    paths = np.full((len(ports), int(length.max(initial=1))), len(used), dtype=np.int64)
    paths[np.arange(paths.shape[1]) < length[:, None]] = at
    return paths, np.append(capacity_bps[used], np.inf)


def _fair(paths: IntArray, capacity_bps: FloatArray) -> FloatArray:
    """Compute max-min fair rates by progressive filling (Bertsekas and Gallager).

    Each round fixes the rates of the flows through all ports whose shares are final. These are the ports of which no
    flow is offered less by another port on its path.
    """
    rate_bps, room_bps = np.zeros(len(paths)), capacity_bps.copy()
    rising = np.arange(len(paths))
    while len(rising):
        path = paths[rising]
        sharers = np.bincount(path.ravel(), minlength=len(room_bps))
        with np.errstate(divide="ignore", invalid="ignore"):
            each_bps = np.where(sharers > 0, room_bps / sharers, np.inf)
        offers_bps = each_bps[path]
        least_bps = offers_bps.min(axis=1)
        held = offers_bps > least_bps[:, None] * (1 + 1e-12)  # held back by another port
        last = np.bincount(path.ravel(), held.ravel(), minlength=len(room_bps)) == 0
        full = (last[path] & ~held).any(axis=1)
        rate_bps[rising[full]] = least_bps[full]
        taken = np.repeat(least_bps[full], path.shape[1])
        room_bps -= np.bincount(path[full].ravel(), taken, minlength=len(room_bps))
        rising = rising[~full]
    return rate_bps


def _srpt(paths: IntArray, capacity_bps: FloatArray, left: FloatArray) -> FloatArray:
    """Compute rates when one flow after the other, lowest `left` first, takes all capacity that its path still has.

    `left` are ranks or remaining bits. Flows that are first at all their ports are served together, with the same
    result as one after the other.
    """
    rate_bps, room_bps = np.zeros(len(paths)), capacity_bps.copy()
    waiting, shared = np.argsort(left, kind="stable"), len(capacity_bps) - 1
    while len(waiting):
        path, place = paths[waiting], np.arange(len(waiting))[:, None]
        first = np.full(len(room_bps), len(waiting))
        np.minimum.at(first, path, place)
        turn = ((first[path] == place) | (path == shared)).all(axis=1)
        takes_bps = room_bps[path[turn]].min(axis=1)
        rate_bps[waiting[turn]] = takes_bps
        room_bps[path[turn]] -= takes_bps[:, None]
        waiting = waiting[~turn & (room_bps[path] > 0).all(axis=1)]
    return rate_bps
