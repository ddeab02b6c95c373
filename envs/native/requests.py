# SPDX-License-Identifier: BSD-3-Clause
"""Requests of a run as an extension module takes them: the graph, hosts that ask, and streams that are passed on."""

from typing import NamedTuple

import numpy as np

from ncc.baselines.registry import message_transports
from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable, IntArray, Streams
from ncc.core.graph import fed_rows, queries_of
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.native.extension import Extension, Spec, filled
from ncc.harness.datapath import HostStack


def set_requests(spec: Spec, module: Extension, scenario: Scenario, flows: FlowTable, stack: HostStack) -> None:
    """Set the graph of a run's flows, if they have one. Their other columns must be set.

    Raises:
        ConfigError: answers that the front end cannot count, or streams that cannot be passed on.
    """
    if (graph := flows.graph) is None:
        return
    spec.set_graph(
        np.ascontiguousarray(graph.group, np.int64),
        np.ascontiguousarray(graph.after, np.int64),
        np.rint(graph.think_s * NS_PER_S).astype(np.int64),
        np.ascontiguousarray(graph.answer, np.uint8),
    )
    if flows.streams is not None:
        _set_streams(spec, scenario, stack, flows, flows.streams)
    if stack.front_end[0] != "one_all":
        _set_fronts(spec, module, scenario.network(), flows)


class FrontEnds(NamedTuple):
    """Front ends of a graph of requests; rows of flows are [n_flows], those of front ends [n]."""

    query_of: IntArray
    """Row of the query that a flow answers; -1: none."""
    end_of: IntArray
    """Front end that asks a query; -1: no query."""
    hosts: IntArray
    """Node of each front end."""
    rate_bytes_per_s: IntArray
    """Line of the port to it."""
    buffer_bytes: IntArray
    """Longest queue of that port."""


def front_ends(topology: Topology, flows: FlowTable) -> FrontEnds:
    """Return the front ends of a graph, which are the hosts that ask.

    Raises:
        ConfigError: an answer does not follow a query of its own (`ncc.core.graph.queries_of`).
    """
    query_of = queries_of(flows)
    queries = query_of[query_of >= 0]
    hosts, which = np.unique(flows.src[queries], return_inverse=True)
    end_of = np.full(len(flows), -1)
    end_of[queries] = which
    ports = [topology.down_port(host) for host in hosts.tolist()]
    rates = [max(1, int(topology.port_rate_bps(port) / BITS_PER_BYTE)) for port in ports]
    buffers = [topology.reach_bytes(port) for port in ports]
    return FrontEnds(query_of, end_of, hosts, np.array(rates, np.int64), np.array(buffers, np.int64))


def _set_fronts(spec: Spec, module: Extension, topology: Topology, flows: FlowTable) -> None:
    """Set the queries of a graph, and the port to each host that asks."""
    fronts = front_ends(topology, flows)
    ports = zip(fronts.rate_bytes_per_s.tolist(), fronts.buffer_bytes.tolist(), strict=True)
    spec.front_ends = [filled(module.FrontEndSpec(), rate_bytes_per_s=rate, buffer_bytes=size) for rate, size in ports]
    spec.set_queries(fronts.query_of, fronts.end_of)


def _set_streams(spec: Spec, scenario: Scenario, stack: HostStack, flows: FlowTable, streams: Streams) -> None:
    """Set the flows that hosts forward, and the rates that queries set."""
    if (limited := streams.query_rate_bps > 0).any() and not scenario.has_receivers:
        raise ConfigError(
            f"flow {int(np.argmax(limited))} has a rate from its query, which needs receivers: set "
            "Scenario.neighbourhoods to receivers or both"
        )
    to = fed_rows(streams)
    fed = np.zeros(len(flows), np.bool_)
    fed[to[to >= 0]] = True
    whole = [name for name in stack.transports if name in message_transports()]
    if fed.any() and whole:
        raise ConfigError(f"transport {whole[0]} sends messages as a whole, and hosts pass streams on: choose a TCP")
    in_pieces = [traffic.writes != "at_once" for _, traffic in scenario.workload]
    if (late := fed & np.array(in_pieces)[flows.traffic]).any():
        raise ConfigError(
            f"flow {int(np.argmax(late))} is fed by others, so its application writes it as it comes: set writes of "
            "its component to at_once"
        )
    spec.set_streams(to, np.ascontiguousarray(streams.query_rate_bps, np.float64))
