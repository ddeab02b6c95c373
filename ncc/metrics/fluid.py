# SPDX-License-Identifier: BSD-3-Clause
"""What no transport can beat: flows as fluids, without packets, queues, windows or delay in what senders know.

At every moment each flow has a rate; ports carry at most their own. Two ways to share:

- ``fair``: max-min fair sharing between flows (Bertsekas and Gallager, Data Networks, section 6.5.2): what a perfect
  fair transport would give.
- ``srpt``: shortest remaining first over the whole network, known to all at once: flows take what is left of their path
  in the order of their remaining bytes. On a single bottleneck nothing has a smaller mean completion time (Schrage,
  Operations Research 1968); in a network it is the usual yardstick (pFabric, SIGCOMM 2013, section 3).

A flow's completion time is its ideal one (`ncc.metrics.fct`), and on top the time that sharing costs it: so it is the
ideal one exactly where the flow is alone. Data alone takes room; ACKs are not counted. Of several paths of equal cost
only the ports that all of them have in common hold a flow back, as if the rest were spread perfectly.
"""

from typing import Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, FlowTable, IntArray
from ncc.core.scenario import Scenario
from ncc.core.topology import NodeKind, Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES
from ncc.metrics.fct import ideal_fct_s

Sharing = Literal["fair", "srpt"]
LEAST_BITS = 1e-3
"""Less than this is nothing: rounding of what is left of a flow."""


def fluid_fct_s(scenario: Scenario, flows: FlowTable, sharing: Sharing) -> FloatArray:
    """Completion time of every flow [n_flows] in seconds if the network were shared like that.

    Raises:
        ConfigError: endless flows, which never complete.
    """
    wire_bits, ports = _wire_bits(scenario, flows), _ports(scenario.network(), flows)
    if np.isinf(wire_bits).any():
        raise ConfigError(f"scenario {scenario.name!r} has endless flows, which have no completion time")
    capacity_bps = np.array([scenario.network().port_rate_bps(p) for p in range(2 * len(scenario.network().links))])
    alone_s = wire_bits / np.array([capacity_bps[mine].min() for mine in ports])
    took_s = _run(flows.start_s, wire_bits, ports, capacity_bps, sharing)
    # A flow that is never held back takes as long as alone; rounding may have it a little sooner.
    return np.asarray(ideal_fct_s(scenario, flows) + np.maximum(took_s - alone_s, 0.0))


def _wire_bits(scenario: Scenario, flows: FlowTable) -> FloatArray:
    transport = scenario.transport
    packets = -(-flows.size_bytes // transport.mss_bytes)
    overhead_bytes = packets * (HEADER_BYTES + transport.frame_overhead_bytes)
    return np.asarray((flows.size_bytes + overhead_bytes) * float(BITS_PER_BYTE))


def _ports(network: Topology, flows: FlowTable) -> list[IntArray]:
    """For each flow the directed ports that all its shortest paths have in common."""
    out: dict[int, list[tuple[int, int]]] = {}
    for i, link in enumerate(network.links):
        out.setdefault(link.a, []).append((link.b, 2 * i))
        out.setdefault(link.b, []).append((link.a, 2 * i + 1))
    known: dict[tuple[int, int], IntArray] = {}
    found = []
    for pair in zip(flows.src.tolist(), flows.dst.tolist(), strict=True):
        if pair not in known:
            known[pair] = np.array(_certain_ports(network, out, *pair), dtype=np.int64)
        found.append(known[pair])
    return found


def _certain_ports(network: Topology, out: dict[int, list[tuple[int, int]]], src: int, dst: int) -> list[int]:
    away, frontier = {dst: 0}, [dst]
    while frontier and src not in away:
        reached = []
        for node in frontier:
            if node != dst and network.nodes[node].kind is NodeKind.HOST:
                continue  # hosts forward nothing
            for peer, _ in out.get(node, []):
                if peer not in away:
                    away[peer] = away[node] + 1
                    reached.append(peer)
        frontier = reached
    certain, at = [], {src}
    while dst not in at:
        steps = {(peer, port) for node in at for peer, port in out[node] if away.get(peer) == away[node] - 1}
        if len(steps) == 1:
            certain.append(next(iter(steps))[1])
        at = {peer for peer, _ in steps}
    return certain


def _run(
    start_s: FloatArray, wire_bits: FloatArray, ports: list[IntArray], capacity_bps: FloatArray, sharing: Sharing
) -> FloatArray:
    """Seconds from arrival to the last bit of every flow.

    Time counts from when the network was last idle, so that late flows are as exact as early ones; and every step
    either lets a flow in or ends one, however little of time such a step is.
    """
    n, left, took_s = len(start_s), wire_bits.copy(), np.full(len(start_s), np.nan)
    crosses = np.zeros((n, len(capacity_bps)), dtype=np.bool_)
    for row, path in zip(crosses, ports, strict=True):
        row[path] = True
    used = crosses.any(axis=0)  # ports that no flow ever crosses need not be looked at
    crosses, capacity_bps = crosses[:, used], capacity_bps[used]
    arrivals = np.argsort(start_s, kind="stable")
    sorted_s = start_s[arrivals]
    since_s, idle_s, now_s = sorted_s, 0.0, 0.0
    active, arrived = np.zeros(0, dtype=np.int64), 0
    while arrived < n or len(active):
        if not len(active):
            idle_s, now_s = float(sorted_s[arrived]), 0.0
            since_s = sorted_s - idle_s
        upto = int(np.searchsorted(since_s, now_s, side="right"))
        active, arrived = np.concatenate([active, arrivals[arrived:upto]]), upto
        mine = crosses[active]
        rate_bps = _fair(mine, capacity_bps) if sharing == "fair" else _srpt(mine, capacity_bps, left[active])
        with np.errstate(divide="ignore"):
            lasts_s = left[active] / rate_bps
        step_s = float(lasts_s.min())
        ends = lasts_s <= step_s
        if arrived < n and since_s[arrived] - now_s < step_s:
            step_s, ends[:] = float(since_s[arrived]) - now_s, False
            now_s = float(since_s[arrived])
        else:
            now_s += step_s
        left[active] -= rate_bps * step_s
        over = ends | (left[active] <= LEAST_BITS + 1e-12 * wire_bits[active])
        took_s[active[over]] = now_s - (start_s[active[over]] - idle_s)
        active = active[~over]
    return took_s


def _fair(crosses: BoolArray, capacity_bps: FloatArray) -> FloatArray:
    """Progressive filling: all rates rise together; where a port is full, its flows stay as they are."""
    rate_bps, rising = np.zeros(len(crosses)), np.ones(len(crosses), dtype=np.bool_)
    room_bps = capacity_bps.copy()
    while rising.any():
        sharers = crosses[rising].sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            each_bps = np.where(sharers > 0, room_bps / sharers, np.inf)
        rise_bps = float(each_bps.min())
        rate_bps[rising] += rise_bps
        room_bps -= rise_bps * sharers
        full = each_bps <= rise_bps * (1 + 1e-12)
        rising &= ~crosses[:, full].any(axis=1)
    return rate_bps


def _srpt(crosses: BoolArray, capacity_bps: FloatArray, left: FloatArray) -> FloatArray:
    """In the order of what is left of them, flows take what is left of their path."""
    rate_bps, room_bps = np.zeros(len(crosses)), capacity_bps.copy()
    for flow in np.argsort(left, kind="stable").tolist():
        rate_bps[flow] = room_bps[crosses[flow]].min()
        room_bps[crosses[flow]] -= rate_bps[flow]
        if not room_bps.any():
            break
    return rate_bps
