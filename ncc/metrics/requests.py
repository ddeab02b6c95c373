# SPDX-License-Identifier: BSD-3-Clause
"""Query completion time (QCT): the time from the first start of a request's flows until all of them are complete.

**Ideal QCT**: a lower bound for every transport and every choice of paths. It is the larger of two times. One is the
longest chain of flows that wait for each other, each with its ideal FCT (`ncc.metrics.fct`) and its think time. The
other is the time that the line of a host needs for the request's bytes on the wire, to it or from it, after the
earliest start of one of these flows. Chains through waits (`ncc.core.flows.Graph`) are cut there.
"""

import numpy as np

from ncc.core.flows import FloatArray, FlowRecords, FlowTable, Graph, IntArray
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE, HEADER_BYTES
from ncc.metrics.fct import ideal_fct_s


def qct_s(flows: FlowTable, records: FlowRecords, until_s: float | None = None) -> FloatArray:
    """QCTs [n_requests] in seconds of the requests of a run, in their order.

    A request of which no flow started has none: NaN.

    Args:
        until_s: time at which the run ended. A request that began and of which a flow is missing counts with its time
            so far, a lower bound of its QCT. Without it, unfinished requests are NaN.
    """
    graph = flows.graph
    if graph is None:
        return np.zeros(0)
    finish_s = records.finish_s if until_s is None else np.where(np.isnan(records.finish_s), until_s, records.finish_s)
    rows = graph.request >= 0
    which = graph.request[rows]
    n = int(which.max(initial=-1)) + 1
    began_s, ended_s = np.full(n, np.inf), np.full(n, -np.inf)
    np.fmin.at(began_s, which, flows.start_s[rows])
    with np.errstate(invalid="ignore"):
        np.maximum.at(ended_s, which, finish_s[rows])
    return np.where(np.isfinite(began_s), ended_s - began_s, np.nan)


def ideal_qct_s(scenario: Scenario, flows: FlowTable) -> FloatArray:
    """Ideal QCTs [n_requests] in seconds of the requests of a run; 0 for a number that no flow has."""
    graph = flows.graph
    if graph is None:
        return np.zeros(0)
    n = int(graph.request.max(initial=-1)) + 1
    start_s, took_s = _earliest_s(graph, ideal_fct_s(scenario, flows))
    rows = graph.request >= 0
    which = graph.request[rows]
    ideal_s = np.zeros(n)
    np.maximum.at(ideal_s, which, (start_s + took_s)[rows])
    for hosts in (flows.src, flows.dst):
        pairs, pair_of = np.unique(np.stack([which, hosts[rows]]), axis=1, return_inverse=True)
        begin_s = np.full(pairs.shape[1], np.inf)
        np.minimum.at(begin_s, pair_of.ravel(), start_s[rows])
        wire_bits = np.bincount(pair_of.ravel(), _wire_bits(scenario, flows.size_bytes[rows]))
        rates = np.array([scenario.network().host_link(host).rate_bps for host in pairs[1].tolist()])
        np.maximum.at(ideal_s, pairs[0], begin_s + wire_bits / rates)
    return ideal_s


def timeout_frac(flows: FlowTable, records: FlowRecords) -> float:
    """Share of the requests that began in which a flow has a retransmission timeout; NaN if none began."""
    if flows.graph is None:
        return float("nan")
    rows = (flows.graph.request >= 0) & ~np.isnan(flows.start_s)
    began, which = np.unique(flows.graph.request[rows], return_inverse=True)
    timeouts = np.bincount(which, records.timeouts[rows])
    return float(np.mean(timeouts > 0)) if len(began) else float("nan")


def _wire_bits(scenario: Scenario, size_bytes: IntArray) -> FloatArray:
    transport = scenario.transport
    packets = -(-size_bytes // transport.mss_bytes)
    return np.asarray(
        BITS_PER_BYTE * (size_bytes + packets * (HEADER_BYTES + transport.frame_overhead_bytes)), np.float64
    )


def _earliest_s(graph: Graph, took_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Earliest start of each flow after its request's, and its duration, both [n_flows] in seconds."""
    n_groups = int(max(graph.group.max(initial=-1), graph.after.max(initial=-1))) + 1
    request_of = np.full(n_groups + 1, -1)
    request_of[graph.group] = graph.request
    inside = (graph.after >= 0) & (request_of[graph.after] == graph.request)
    waiting = np.flatnonzero(inside)
    waiting = waiting[np.argsort(graph.after[waiting], kind="stable")]
    first = np.searchsorted(graph.after[waiting], np.arange(n_groups + 1))  # in `waiting`, by group
    start_s, ready_s = np.zeros(len(took_s)), np.zeros(n_groups + 1)
    left = np.bincount(graph.group + 1, minlength=n_groups + 1)[1:]  # rows of each group whose start is not known
    rows = np.flatnonzero(~inside)
    while len(rows):
        group, end_s = graph.group[rows], start_s[rows] + took_s[rows]
        np.maximum.at(ready_s, group, end_s)
        group = group[group >= 0]
        np.subtract.at(left, group, 1)
        ready = np.unique(group[left[group] == 0])
        n = first[ready + 1] - first[ready]
        rows = waiting[np.repeat(first[ready] - np.cumsum(n) + n, n) + np.arange(n.sum())]
        start_s[rows] = ready_s[graph.after[rows]] + graph.think_s[rows]
    return start_s, took_s
