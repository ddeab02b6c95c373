# SPDX-License-Identifier: BSD-3-Clause
"""Flow completion time (FCT), and the definition of the ideal FCT. A slowdown is an FCT divided by its ideal FCT.

**Ideal FCT**: the time that the flow would take alone in the network, with no window, queue or processing time:

1. the handshake: a packet of headers only in each direction (SYN, SYN-ACK), if `transport.handshake` asks for one, no
   connection is open from the start (`transport.connections_per_pair`) and the flow does not answer a query;
2. the payload, cut into packets of `transport.mtu_bytes` of which 40 bytes are headers, leaving back to back at the
   first link's rate; each hop stores a packet and forwards it; the flow ends when the last one is complete.

On the wire a packet takes `transport.frame_overhead_bytes` more. A path with hop rates r_h and delays d_h moves n
packets, n - 1 of wire size L and a last one of size l <= L, in

    sum_h d_h + max_k [ sum_{h<=k} L/r_h + (n - 2) L / min_{h<=k} r_h + sum_{h>=k} l/r_h ]        (n >= 2)
    sum_h d_h + sum_h l/r_h                                                                      (n = 1)

This is exact for an empty store-and-forward network, in which the last packet waits behind the others up to some hop k
and not beyond it. If all packets are full, it is the time of payload and headers at the bottleneck plus the time of one
packet at every other hop. No transport can be faster, so a slowdown is at least 1.

With `routing: spray` or `entropy` a flow has all shortest paths at once. The ports of hop h have the rate R_h together;
the fastest of them has the rate r_h, and the shortest delay is d_h. Then n packets need at least

    sum_h d_h + max [ sum_h L/r_h,  max_k ( b_k + ((n - 1) L + l) / R_k + sum_{h>k} l/r_h ) ]
    with b_k = min [ sum_{h<k} L/r_h,  (n - 1) L / R_1 + sum_{h<k} l/r_h ],  the time of the first packet at hop k

Times of single packets are rounded down to nanoseconds, because datapaths count in whole nanoseconds and may round down
at every hop.
"""

import numpy as np

from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES, NS_PER_S


def ideal_fct_s(scenario: Scenario, flows: FlowTable) -> FloatArray:
    """Ideal FCT of every flow, shape [n_flows], in seconds."""
    ideal_ns = np.zeros(len(flows))
    if not len(flows):
        return ideal_ns
    places = _places(scenario.network())
    _, firsts, of_flow = np.unique(
        places[flows.src] * len(places) + places[flows.dst], return_index=True, return_inverse=True
    )
    order = np.argsort(of_flow, kind="stable")
    ends = np.cumsum(np.bincount(of_flow))
    alike: dict[tuple[object, ...], tuple[tuple[int, int], list[IntArray]]] = {}
    for first, rows in zip(firsts.tolist(), np.split(order, ends[:-1]), strict=True):
        src, dst = int(flows.src[first]), int(flows.dst[first])
        alike.setdefault(_ways(scenario, src, dst), ((src, dst), []))[1].append(rows)
    for (src, dst), parts in alike.values():
        rows = np.concatenate(parts)
        ideal_ns[rows] = _transfer_ns(scenario, src, dst, flows.size_bytes[rows])
        opens = rows if flows.graph is None else rows[~flows.graph.answer[rows]]
        ideal_ns[opens] += _handshake_ns(scenario, src, dst)
    return ideal_ns / NS_PER_S


def _places(network: Topology) -> IntArray:
    """Number of each node's place, [n_nodes]. Nodes share it if their only links have one switch, rate and delay.

    All nodes of a place have the same ideal FCTs to another place.
    """
    kinds: dict[object, int] = {}
    places = []
    for node, peers in network.peers.items():
        (peer, port), *more = peers
        link = network.links[port // 2]
        places.append(kinds.setdefault(node if more else (peer, link.rate_bps, link.delay_s), len(kinds)))
    return np.array(places)


def _ways(scenario: Scenario, src: int, dst: int) -> tuple[object, ...]:
    """Return a key for a pair of hosts: rates and delays of its hops. Equal keys mean equal ideal FCTs per size."""
    if scenario.routing in ("spray", "entropy"):
        return src, dst
    ways = (_path(scenario, *ends) for ends in ((src, dst), (dst, src)))
    return tuple((tuple(rates.tolist()), delay_ns) for rates, delay_ns in ways)


def base_rtt_s(scenario: Scenario, src: int, dst: int) -> float:
    """RTT in an empty network of one full data packet from `src` and the pure ACK that answers it, in seconds."""
    full = _one_way_ns(scenario, src, dst, scenario.transport.mtu_bytes)
    return (full + _one_way_ns(scenario, dst, src, HEADER_BYTES)) / NS_PER_S


def fct_s(flows: FlowTable, records: FlowRecords, until_s: float | None = None) -> FloatArray:
    """Time in seconds from a flow's arrival at its host until the receiver has every byte, shape [n_flows].

    A flow of requests that never started has none: NaN.

    Args:
        until_s: time at which the run ended; an unfinished flow counts with its time so far, a lower bound of its FCT.
            Without it, unfinished flows are NaN.
    """
    finish_s = records.finish_s if until_s is None else np.where(np.isnan(records.finish_s), until_s, records.finish_s)
    return np.asarray(finish_s - flows.start_s, dtype=np.float64)


def fct_slowdown(
    scenario: Scenario, flows: FlowTable, records: FlowRecords, until_s: float | None = None
) -> FloatArray:
    """FCT divided by ideal FCT, shape [n_flows], >= 1; unfinished flows count as in `fct_s`, with at least 1."""
    slowdown = fct_s(flows, records, until_s) / ideal_fct_s(scenario, flows)
    return np.where(np.isnan(records.finish_s), np.maximum(slowdown, 1.0), slowdown)


def _transfer_ns(scenario: Scenario, src: int, dst: int, size_bytes: IntArray) -> FloatArray:
    """Transfer time in nanoseconds by the formula above, for flows of one path, without the handshake."""
    if scenario.routing in ("spray", "entropy"):
        return _sprayed_ns(scenario, src, dst, size_bytes)
    transport = scenario.transport
    rates, delay_ns = _path(scenario, src, dst)
    n = -(-size_bytes // transport.mss_bytes)
    last_payload = size_bytes - (n - 1) * transport.mss_bytes
    last = _serialise_ns(last_payload + HEADER_BYTES + transport.frame_overhead_bytes, rates)  # [n_hops, n_flows]
    full = _serialise_ns(np.array([transport.mtu_bytes + transport.frame_overhead_bytes]), rates)  # [n_hops, 1]
    behind = np.cumsum(full, axis=0) + (n - 2) * np.maximum.accumulate(full, axis=0)
    alone = np.cumsum(last[::-1], axis=0)[::-1]
    longest = np.where(n == 1, alone[0], np.max(behind + alone, axis=0))
    return np.asarray(delay_ns + longest, dtype=np.float64)


def _sprayed_ns(scenario: Scenario, src: int, dst: int, size_bytes: IntArray) -> FloatArray:
    """Least transfer time in nanoseconds over all shortest paths at once, by the second formula above."""
    transport, network = scenario.transport, scenario.network()
    hops = network.routes.hops(src, dst)
    rates = [np.array([network.port_rate_bps(port) for port in ports.tolist()]) for ports in hops]
    delay_ns = sum(min(_delay_ns(network, port) for port in ports.tolist()) for ports in hops)
    fastest, pooled = np.array([of.max() for of in rates]), np.array([of.sum() for of in rates])
    n = -(-size_bytes // transport.mss_bytes)
    headers = HEADER_BYTES + transport.frame_overhead_bytes
    last_bytes = size_bytes - (n - 1) * transport.mss_bytes + headers
    before_bytes = (n - 1) * (transport.mss_bytes + headers)
    last = _serialise_ns(last_bytes, fastest)  # [n_hops, n_flows]
    full = _serialise_ns(np.array([transport.mss_bytes + headers]), fastest)  # [n_hops, 1]
    first = np.minimum(
        np.cumsum(full, axis=0) - full, _serialise_ns(before_bytes, pooled[:1]) + np.cumsum(last, axis=0) - last
    )
    after = np.cumsum(last[::-1], axis=0)[::-1] - last
    # Datapaths round each packet's time down.
    together = np.maximum(_serialise_ns(before_bytes + last_bytes, pooled) - n, last)
    longest = (first + together + after).max(axis=0)
    return np.asarray(delay_ns + np.maximum(longest, np.where(n == 1, last, full).sum(axis=0)), dtype=np.float64)


def _handshake_ns(scenario: Scenario, src: int, dst: int) -> float:
    if not scenario.transport.handshake or scenario.transport.connections_per_pair > 0:
        return 0.0
    return _one_way_ns(scenario, src, dst, HEADER_BYTES) + _one_way_ns(scenario, dst, src, HEADER_BYTES)


def _one_way_ns(scenario: Scenario, src: int, dst: int, packet_bytes: int) -> float:
    """Time in nanoseconds of one IP packet through the empty path."""
    rates, delay_ns = _path(scenario, src, dst)
    wire = np.array([packet_bytes + scenario.transport.frame_overhead_bytes])
    return delay_ns + float(_serialise_ns(wire, rates).sum())


def _serialise_ns(wire_bytes: IntArray, rates_bps: FloatArray) -> FloatArray:
    """Whole nanoseconds, rounded down, to put packets of shape [n] on hops of shape [n_hops]: [n_hops, n]."""
    return np.asarray(np.floor(wire_bytes * float(BITS_PER_BYTE * NS_PER_S) / rates_bps[:, None]), dtype=np.float64)


def _path(scenario: Scenario, src: int, dst: int) -> tuple[FloatArray, float]:
    """Rates of the hops from `src` to `dst`, and the sum of their delays in whole nanoseconds, rounded down."""
    network = scenario.network()
    ports = network.path(src, dst)
    rates = np.array([network.port_rate_bps(port) for port in ports])
    return rates, float(sum(_delay_ns(network, port) for port in ports))


def _delay_ns(network: Topology, port: int) -> int:
    return int(network.links[port // 2].delay_s * NS_PER_S + 1e-6)
