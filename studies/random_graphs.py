# SPDX-License-Identifier: BSD-3-Clause
"""Run random graphs of requests on packetsim and ns-3: every flow must start and end at the same nanosecond.

Usage: ``python -m studies.random_graphs --graphs 1000``
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ncc.core.flows import FlowRecords, FlowTable, Graph
from ncc.core.graph import Rows
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell, LeafSpine, ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.ns3 import Ns3Datapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import Datapath, HostStack

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
MAX_EPOCHS = 100_000


def drawn(seed: int) -> tuple[Scenario, FlowTable, HostStack]:
    """Draw a small network, a graph of 5 to 80 flows and waits in it, and a stack; buffers are short, so packets drop.

    Recovery is classic, in which both simulators are the same to the nanosecond.
    """
    rng = np.random.default_rng(seed)
    topology = _topology(rng)
    network = topology.build()
    names = [network.nodes[host].name for host in network.hosts]
    transport = Transport(
        recovery="classic",
        handshake=bool(rng.integers(2)),
        sack=bool(rng.integers(4)),
        initial_window_pkts=int(rng.choice([2, 10, 40])),
    )
    scenario = Scenario(
        name="graph",
        topology=topology,
        workload=(("one", Fixed(flows=(Flow(start_s=0.0, src=names[0], dst=names[1], size_bytes=1),))),),
        duration_s=1.0,
        drain_s=None,
        transport=transport,
    )
    flows = table(_rows(rng, np.array(network.hosts)))
    return scenario, flows, HostStack(transport=str(rng.choice(TRANSPORTS)), **FRONTS[rng.integers(len(FRONTS))])


def table(rows: Rows) -> FlowTable:
    """Make a flow table of rows, in order of start."""
    columns = rows.columns()
    order = np.argsort(columns["start_s"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    graph = Graph(**{name: columns.pop(name) for name in ("request", "answer", "group", "after", "think_s")})
    return FlowTable(**columns, traffic=np.zeros(len(order), np.int64), graph=graph)


def _topology(rng: np.random.Generator) -> AnyTopology:
    buffer_bytes, mark_bytes = int(rng.integers(5, 40)) * 1500, 4500
    match rng.integers(3):
        case 0:
            senders = int(rng.integers(2, 16))
            return ManyToOne(senders=senders, buffer_bytes=buffer_bytes, mark_threshold_bytes=mark_bytes)
        case 1:
            pairs = int(rng.integers(1, 5))
            return Dumbbell(pairs=pairs, host_rate_bps=1e9, buffer_bytes=buffer_bytes, mark_threshold_bytes=mark_bytes)
        case _:
            return LeafSpine(
                leaves=2,
                spines=int(rng.integers(1, 3)),
                hosts_per_leaf=int(rng.integers(1, 6)),
                host_rate_bps=1e9,
                spine_rate_bps=2e9,
                buffer_bytes=buffer_bytes,
                mark_threshold_bytes=mark_bytes,
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


def run(datapath: Datapath, scenario: Scenario, flows: FlowTable, stack: HostStack) -> FlowRecords:
    """Run until all flows are delivered, or for `MAX_EPOCHS` periods."""
    measurement = datapath.start(scenario, flows, stack, 1)
    limits = np.full(scenario.n_agents, np.inf)
    try:
        while measurement.flows_finished < len(flows) and measurement.epoch < MAX_EPOCHS:
            measurement = datapath.step(limits)
        return datapath.finish().flows
    finally:
        datapath.close()


def differing(ours: FlowRecords, theirs: FlowRecords) -> list[int]:
    """Rows whose start or end differs, to the nanosecond, or that have not ended."""
    times = [np.rint(1e9 * np.stack([each.start_s, each.finish_s])) for each in (ours, theirs)]
    return np.flatnonzero((times[0] != times[1]).any(axis=0)).tolist()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; exit status 1 if a graph differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000, help="number of graphs")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    options = parser.parse_args(arguments)
    flows_seen, timeouts, bad = 0, 0, []
    for seed in range(options.first, options.first + options.graphs):
        scenario, flows, stack = drawn(seed)
        ours, theirs = (run(each(), scenario, flows, stack) for each in (PacketsimDatapath, Ns3Datapath))
        flows_seen += len(flows)
        timeouts += int(ours.timeouts.sum())
        if rows := differing(ours, theirs):
            bad.append(seed)
            print(
                f"seed {seed} ({stack.transport}, {stack.front_end[0]}): rows {rows[:5]} of {len(flows)} differ",
                flush=True,
            )
    print(
        f"{options.graphs - len(bad)} of {options.graphs} graphs are equal to the nanosecond: {flows_seen} flows, "
        f"{timeouts} timeouts"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
