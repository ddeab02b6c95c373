# SPDX-License-Identifier: BSD-3-Clause
"""Run random flows on packetsim and ns-3: every flow must start and end at the same nanosecond.

There are graphs of requests (`requests`), flows and requests over connections that stay open (`kept`), requests under
receivers' limits (`receivers`), requests over message transports (`messages`), and requests through trees of hubs, as
SICC's, half of them under receivers' limits (`streams`).

Usage: ``python -m studies.random_graphs --graphs 1000 --of requests kept receivers messages streams``
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.flows import FlowRecords, FlowTable
from ncc.core.graph import Rows, joined
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, LeafSpine, ManyToOne
from ncc.core.topology import Program, Red
from ncc.core.workload import Fixed, Flow
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import Datapath, HostStack, tell

KINDS = ("requests", "kept", "receivers", "messages", "streams")
TRANSPORTS = ("newreno", "cubic", "dctcp")
FRONTS: tuple[dict[str, Any], ...] = (
    {},
    {"front": "fixed", "front_params": (("window", 2),)},
    {"front": "sw"},
    {"front": "sw", "front_params": (("per_window", 1),)},
    {"front": "ictcp_asks"},
    {"front": "fits"},
)
"""Front ends of stacks; without one, all queries leave at once."""
SHARE = 84 / (2 * 84 + 1538)
"""Share of a line for the words of a transport that has a shaped queue: a word both ways for each full packet."""
TRIMMED: dict[str, Any] = {"programs": (Program(name="trim"),), "control_first": True}
MARKED = {"red": Red(min_bytes=3000, max_bytes=12000, max_prob_frac=1.0), "mark_on_departure": True}
MESSAGES: dict[str, tuple[HostStack, dict[str, Any]]] = {
    "ndp": (HostStack(transport="ndp"), TRIMMED),
    "eqds": (HostStack(transport="eqds"), TRIMMED),
    "homa": (HostStack(transport="homa"), {"classes": 8}),
    "pfabric": (HostStack(transport="pfabric_host", tags="remaining"), {"programs": (Program(name="pfabric"),)}),
    "expresspass": (HostStack(transport="expresspass"), {"shaped_frac": SHARE}),
    "flashpass": (HostStack(transport="flashpass"), {"shaped_frac": SHARE}),
    "nscc": (HostStack(transport="nscc"), TRIMMED | MARKED),
    "rccc": (HostStack(transport="rccc"), TRIMMED | MARKED),
}
"""Stacks of message transports, and what their ports need."""
MAX_EPOCHS = 100_000


@dataclass(frozen=True)
class Case:
    """A network, its flows, and the stack of its hosts."""

    scenario: Scenario
    flows: FlowTable
    stack: HostStack
    grants_seed: int | None = None
    """Seed of the messages of receivers, which are drawn in each period; None: there are none."""


def drawn(seed: int, kind: str = "requests") -> Case:
    """Draw a small network, 5 to 80 flows and waits in it, and a stack; buffers are short, so packets drop.

    Recovery is classic, in which both simulators are the same to the nanosecond.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    stack, ports = HostStack(transport=str(rng.choice(TRANSPORTS))), {"mark_threshold_bytes": 4500}
    if kind == "messages":
        stack, ports = MESSAGES[str(rng.choice(list(MESSAGES)))]
    topology = _topology(rng, ports)
    network = topology.build()
    names = [network.nodes[host].name for host in network.hosts]
    transport = Transport(
        recovery="classic",
        handshake=bool(rng.integers(2)) and kind != "messages",
        sack=bool(rng.integers(4)),
        initial_window_pkts=int(rng.choice([2, 10, 40])),
        connections_per_pair=int(rng.integers(1, 3)) if kind == "kept" else 0,
        idle_restart=bool(rng.integers(4)),
    )
    scenario = Scenario(
        name="graph",
        topology=topology,
        workload=(("one", Fixed(flows=(Flow(start_s=0.0, src=names[0], dst=names[1], size_bytes=1),))),),
        duration_s=1.0,
        drain_s=None,
        transport=transport,
    )
    hosts = np.array(network.hosts)
    grants_seed = seed if kind == "receivers" or (kind == "streams" and rng.integers(2)) else None
    if kind == "streams":
        rows = _relayed(rng, hosts, told=grants_seed is not None)
    else:
        rows = _in_turn(rng, hosts) if kind == "kept" and rng.integers(2) else _rows(rng, hosts)
    match kind:
        case "requests":
            stack = stack.replace(**FRONTS[rng.integers(len(FRONTS))])
        case "receivers":
            hold = bool(rng.integers(2))
            answer_frac = 0.6 if hold and rng.integers(2) else None
            stack = HostStack(transport=stack.transport, hold=hold, answer_frac=answer_frac)
            scenario = scenario.replace(neighbourhoods="receivers", period_s=3.7e-4)
        case "streams" if grants_seed is not None:
            scenario = scenario.replace(neighbourhoods="receivers", period_s=3.7e-4)
        case "messages":
            routing = "entropy" if stack.transport in ("nscc", "rccc") else "symmetric"
            scenario = scenario.replace(routing=routing, nic=Nic(shaped_frac=SHARE))
    return Case(scenario, table(rows), stack, grants_seed)


def table(rows: Rows) -> FlowTable:
    """Make a flow table of rows, in order of start; it has a graph if a row is part of one."""
    columns = rows.columns()
    order = np.argsort(columns["start_s"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    graph, streams = joined([columns])
    assert graph is not None
    plain = (np.maximum(graph.request, graph.group) < 0).all()
    return FlowTable(
        **{name: columns[name] for name in ("start_s", "src", "dst", "size_bytes")},
        traffic=np.zeros(len(order), np.int64),
        graph=None if plain else graph,
        streams=streams,
    )


def _topology(rng: np.random.Generator, ports: dict[str, Any]) -> AnyTopology:
    """Draw a network whose ports have these settings."""
    ports = {"mark_threshold_bytes": 0, "buffer_bytes": int(rng.integers(5, 40)) * 1500} | ports
    match rng.integers(3):
        case 0:
            return ManyToOne(senders=int(rng.integers(2, 16)), **ports)
        case 1:
            return Dumbbell(pairs=int(rng.integers(1, 5)), host_rate_bps=1e9, **ports)
        case _:
            return LeafSpine(
                leaves=2,
                spines=int(rng.integers(1, 3)),
                hosts_per_leaf=int(rng.integers(1, 6)),
                host_rate_bps=1e9,
                spine_rate_bps=2e9,
                **ports,
            )


def _rows(rng: np.random.Generator, hosts: np.ndarray) -> Rows:
    """Draw the rows: requests of all hosts to one, answers to these, chains, waits, and flows of no graph."""
    rows, ready = Rows(), [-1]
    for rows.request in range(int(rng.integers(2, 8))):
        after = int(rng.choice(ready))
        start_s = 0.0 if after >= 0 else round(rng.random() * 2e-3, 9)
        think_s = float(rng.choice([1e-9, 1e-5, round(rng.random() * 1e-3, 9)])) if after >= 0 else 0.0
        one, n = rng.choice(hosts), int(rng.integers(1, 12))
        others = rng.choice(hosts[hosts != one], n)
        given = {"request": rows.request, "start_s": start_s}
        if rng.random() < 0.2:
            before, after = after, rows.group()
            rows.wait(one, after=before, group=after, think_s=think_s, start_s=start_s)
            think_s = 1e-9
        asked, answered = rows.groups(n), rows.group()
        rows.add(one, others, rng.integers(1, 3000, n), after=after, group=asked, think_s=think_s, **given)
        sizes = rng.integers(1, int(rng.choice([1400, 60_000])), n)
        service_s = float(rng.choice([1e-9, 2e-6]))
        is_answer = rng.random(n) < 0.8
        rows.add(others, one, sizes, after=asked, group=answered, think_s=service_s, answer=is_answer, **given)
        ready += [answered, int(rng.choice(asked))]
    rows.add(hosts[0], hosts[1], 20_000, start_s=round(rng.random() * 1e-3, 9))
    return rows


def _in_turn(rng: np.random.Generator, hosts: np.ndarray) -> Rows:
    """Draw flows of no graph between a few pairs of hosts: one after another, at once, and after pauses."""
    rows = Rows()
    for _ in range(int(rng.integers(1, 5))):
        src, dst = rng.choice(hosts, 2, replace=False)
        n = int(rng.integers(4, 15))
        pauses_s = rng.choice([0.0, 1e-4, 3e-3, 0.04], n) * rng.choice([1.0, rng.random()], n)
        sizes = rng.integers(1, rng.choice([3000, 300_000], n))
        rows.add(src, dst, sizes, start_s=np.round(np.cumsum(pauses_s), 9))
    return rows


def _relayed(rng: np.random.Generator, hosts: np.ndarray, *, told: bool) -> Rows:
    """Draw requests through trees of hubs, of which some are told a rate if `told`; the last hubs have no children."""
    rows, before = Rows(), -1
    for rows.request in range(int(rng.integers(1, 5))):
        front_end, *others = rng.permutation(hosts).tolist()
        hubs = np.array(others[: int(rng.integers(1, len(hosts)))])
        n = len(hubs)
        parent = np.array([int(rng.integers(-1, number)) for number in range(n)])
        asked, stream, top = rows.groups(n), rows.streams(n), parent < 0
        to, given = np.where(top, front_end, hubs[parent]), {"request": rows.request}
        think_s = np.where(top & (before >= 0), 1e-5, 0.0)
        rows.add(to, hubs, 40, after=np.where(top, before, asked[parent]), think_s=think_s, group=asked, **given)
        of = np.repeat(np.arange(n), rng.integers(0, 4, n))
        servers = np.array([rng.choice(hosts[hosts != hub]) for hub in hubs[of]], np.int64)
        sizes = rng.integers(1, int(rng.choice([1400, 60_000])), len(of))
        own = rng.integers(1, int(rng.choice([1400, 90_000])), n)
        each = rows.groups(len(of))
        rows.add(hubs[of], servers, 40, after=asked[of], group=each, **given)
        rows.add(servers, hubs[of], sizes, after=each, answer=rng.random(len(of)) < 0.8, feeds=stream[of], **given)
        whole = own + np.bincount(of, sizes, n).astype(np.int64)
        for hub in range(n - 1, 0, -1):
            if parent[hub] >= 0:
                whole[parent[hub]] += whole[hub]
        before = rows.group()
        rates = rng.choice([0.0, 3e7, 9e8], n) * told
        rows.add(
            hubs, to, whole,
            after=asked, group=np.where(top, before, -1), answer=True, stream=stream,
            feeds=np.where(top, -1, stream[parent]), query_rate_bps=rates, **given,
        )  # fmt: skip
    return rows


def run(datapath: Datapath, case: Case) -> FlowRecords:
    """Run until all flows are delivered, or for `MAX_EPOCHS` periods."""
    measurement = datapath.start(case.scenario, case.flows, case.stack, 1)
    limits = np.full(case.scenario.n_agents, np.inf)
    rng = None if case.grants_seed is None else np.random.default_rng(case.grants_seed)
    try:
        while measurement.flows_finished < len(case.flows) and measurement.epoch < MAX_EPOCHS:
            if rng is not None:
                tell(datapath, _grants(rng, measurement))
            measurement = datapath.step(limits)
        return datapath.finish().flows
    finally:
        datapath.close()


def _grants(rng: np.random.Generator, measurement: Measurement) -> Grants:
    """Draw starts, rates and windows for some of the pairs that receivers know of."""
    edges, n = measurement.edges, len(measurement.edges)
    which = rng.permutation(n)[: int(rng.integers(n + 1))]
    return Grants(
        edges.src[which],
        edges.dst[which],
        measurement.time_s + rng.choice([-1e-3, 0.0, 1.1e-4, 2.5e-3], len(which)),
        rng.choice([3e7, 2e8, 9e8, np.inf], len(which)),
        rng.choice([0, 1, 3, 10], len(which)),
    )


def differing(ours: FlowRecords, theirs: FlowRecords) -> list[int]:
    """Rows whose start or end differs, to the nanosecond, or that have not ended."""
    times = [np.rint(1e9 * np.stack([each.start_s, each.finish_s])) for each in (ours, theirs)]
    return np.flatnonzero((times[0] != times[1]).any(axis=0)).tolist()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; exit status 1 if a graph differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000, help="number of graphs")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--of", nargs="+", default=["requests"], choices=KINDS, help="kinds; all have these seeds")
    options = parser.parse_args(arguments)
    return max([_compared(kind, range(options.first, options.first + options.graphs)) for kind in options.of])


def _compared(kind: str, seeds: range) -> int:
    flows_seen, timeouts, bad = 0, 0, 0
    for seed in seeds:
        case = drawn(seed, kind)
        ours, theirs = (run(each(), case) for each in (PacketsimDatapath, Ns3Datapath))
        flows_seen += len(case.flows)
        timeouts += int(ours.timeouts.sum())
        if rows := differing(ours, theirs):
            bad += 1
            n = len(case.flows)
            of = f"{case.stack.transport}, {case.stack.front_end[0]}"
            print(f"{kind}, seed {seed} ({of}): rows {rows[:5]} of {n} differ", flush=True)
    print(
        f"{kind}: {len(seeds) - bad} of {len(seeds)} are equal to the nanosecond: {flows_seen} flows, "
        f"{timeouts} timeouts",
        flush=True,
    )
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
