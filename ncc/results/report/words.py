# SPDX-License-Identifier: BSD-3-Clause
"""A scenario, a training and the provenance of results: as text, and as rows of (name, value)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ncc.core.distributions import distribution
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.workload import AnyTraffic, Fixed, Incast, Long, Permutation, Poisson, Queries, offered_load
from ncc.harness.results import Evaluation
from ncc.results.drawing import amount, duration_text
from ncc.results.report.sources import Source, Training
from ncc.run.compose import agent_name

Rows = list[tuple[str, str]]
SHORT = 12
"""Number of digits of a hash that are shown."""


def scenario_rows(scenario: Scenario) -> Rows:
    """Rows of the scenario: everything that was run except the controllers."""
    network, transport = scenario.network(), scenario.transport
    hosts = sum(1 for node in network.nodes if node.kind == "host")
    loads = [
        f"{_number(100 * load)} % of the rate of {network.port_name(port)}"
        for port, load in offered_load(scenario.workload, network).items()
    ]
    most = "" if scenario.drain_s is None else f", {amount(scenario.drain_s, 's')} at most"
    late = f", in force {amount(scenario.decision_latency_s, 's')} later" if scenario.decision_latency_s else ""
    return [
        (
            "Network",
            f"{scenario.topology.__struct_config__.tag}: {_several(hosts, 'host')}, "
            f"{_several(len(network.nodes) - hosts, 'switch')}, {_several(len(network.links), 'link')}; "
            f"{_several(scenario.n_agents, 'host')} under control",
        ),
        ("Shared uplinks", _uplinks(network)),
        *((f"Traffic: {name}", traffic_words(traffic, network)) for name, traffic in scenario.workload),
        *([("Offered payload", "; ".join(loads))] if loads else []),
        ("Buffer of its port", _buffer(network)),
        ("Arrivals", f"for {amount(scenario.duration_s, 's')}, then until every flow is delivered{most}"),
        ("Decisions", f"every {amount(scenario.period_s, 's')}{late}; {_sharing(scenario)}"),
        (
            "TCP",
            f"MTU {transport.mtu_bytes} bytes, initial window {transport.initial_window_pkts} packets, RTO at least "
            f"{amount(transport.min_rto_s, 's')} (first {amount(transport.initial_rto_s, 's')}), an ACK for every "
            f"{transport.delayed_ack_pkts} packets, {'SACK' if transport.sack else 'no SACK'}",
        ),
        ("Digest", scenario.digest()),
    ]


def traffic_words(traffic: AnyTraffic, network: Topology) -> str:
    """Description of one component of a workload."""
    match traffic:
        case Poisson():
            rate = traffic.arrivals_per_s(network)
            return (
                f"{_number(rate)} flows a second from {traffic.sources!r} to {traffic.destinations!r}, a Poisson "
                f"process, sizes from the table {distribution(traffic.distribution).name!r}"
            )
        case Incast():
            return (
                f"{traffic.events_per_s:g} times a second, at random, {traffic.fan_in} hosts of {traffic.sources!r} "
                f"send {amount(traffic.bytes_per_server, 'B')} each to one of {traffic.destinations!r}"
                f"{_jitter(traffic.jitter_s)}"
            )
        case Queries():
            return (
                f"every {amount(traffic.interval_s, 's')} {traffic.fan_in} hosts of {traffic.sources!r} answer the "
                f"first of {traffic.destinations!r} with {amount(traffic.response_bytes, 'B')} together"
                f"{_jitter(traffic.jitter_s)}"
            )
        case Permutation():
            return (
                f"every host of {traffic.hosts!r} sends {amount(traffic.size_bytes, 'B')} to another at "
                f"{amount(traffic.start_s, 's')}"
            )
        case Long():
            return f"{traffic.flows} flows from {traffic.sources!r} to {traffic.destinations!r} that never end"
        case Fixed():
            return f"{len(traffic.flows)} listed flows, {amount(sum(f.size_bytes for f in traffic.flows), 'B')} in all"


def _jitter(jitter_s: float) -> str:
    return f", starting within {amount(jitter_s, 's')}" if jitter_s else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _several(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 'es' if what.endswith('ch') else 's'}"


def _uplinks(network: Topology) -> str:
    ports = [area.uplink_port for area in network.neighbourhoods]
    names = ", ".join(
        f"{network.port_name(port)} ({amount(network.port_rate_bps(port), 'bit/s')})" for port in ports[:3]
    )
    return names + (f" and {len(ports) - 3} more" if len(ports) > 3 else "")


def _buffer(network: Topology) -> str:
    buffer = network.port_buffer(network.neighbourhoods[0].uplink_port)
    if buffer is None:
        return "none"
    shared = f" and a share of {amount(network.pools[buffer.pool].size_bytes, 'B')}" if buffer.pool is not None else ""
    marks = (
        f"marks above {amount(buffer.mark_threshold_bytes, 'B')}" if buffer.mark_threshold_bytes else "no step marks"
    )
    return f"{amount(buffer.size_bytes, 'B')}{shared}, {marks}{', RED' if buffer.red is not None else ''}"


def _sharing(scenario: Scenario) -> str:
    said = [f"neighbours are seen {_several(scenario.sharing_delay_periods, 'period')} late"]
    if scenario.sharing_loss_frac:
        said.append(f"{100 * scenario.sharing_loss_frac:g} % of their messages are lost")
    if scenario.sharing_silent:
        said.append(f"silent: {', '.join(scenario.sharing_silent)}")
    if scenario.sharing_lying:
        said.append(f"lying: {', '.join(scenario.sharing_lying)}")
    return "; ".join(said)


def training_rows(training: Training) -> Rows:
    """Rows of the policy's training."""
    config, facts = training.config, training.manifest.facts
    agent, rewards = config["agent"], config["env"].get("reward")
    epochs = max((row["epochs"] for row in training.rows), default=0)
    rows = [
        ("Agent", agent_name(agent)),
        ("Learned on", ", ".join(config["datapath"])),
        ("Seed", str(facts["seed"])),
        ("Epochs", f"{epochs:,} reported"),
        ("Took", duration_text(facts["trained_s"])),
    ]
    if isinstance(rewards, Mapping) and "kind" in rewards:
        rows.insert(2, ("Reward", str(rewards["kind"])))
    if (config.get("families") or {}).get("of"):
        rows.append(("Families", ", ".join(config["families"]["of"])))
    return rows


def provenance_rows(source: Source) -> list[tuple[str, Rows]]:
    """Rows of the provenance of each result, with the hash of its manifest's file list."""
    parts = []
    if source.training is not None:
        manifest = source.training.manifest
        parts.append(("Training", made_rows(manifest.provenance) + _files(len(manifest.files))))
    for datapath, evaluation in source.evaluations.items():
        parts.append((f"Evaluation on {datapath}", evaluation_rows(evaluation)))
    return parts


def evaluation_rows(evaluation: Evaluation) -> Rows:
    """Rows of one evaluation: its provenance, its seeds and its controllers."""
    facts, runs = evaluation.manifest.facts, evaluation.runs
    files = sum(len(run.manifest.files) for run in runs)
    rows = made_rows(evaluation.manifest.provenance)
    flow = sorted({run.manifest.facts["flow_seed"] for run in runs})
    commits = sorted({str(run.manifest.provenance["git"]["commit"])[:SHORT] for run in runs})
    rows += [
        ("Runs made at commits", ", ".join(commits)),
        ("Seeds", _ranges(facts["seeds"])),
        ("Flow seeds", f"{len(flow)}, one per seed, the same for every controller: {', '.join(map(str, flow))}"),
        (
            "Computing",
            f"{duration_text(facts['wall_s_sum'])} wall, {duration_text(facts['cpu_s_sum'])} CPU, all runs together",
        ),
        *_files(files + len(evaluation.manifest.files)),
    ]
    for name in evaluation.controllers:
        first = evaluation.of(name)[0].manifest.facts
        policy = f", policy {first['inputs']['policy'][:SHORT]}" if "policy" in first["inputs"] else ""
        stack = first["controller"]["stack"]
        params = ", ".join(f"{key}={value}" for key, value in stack["params"])
        what = f"{stack['transport']}{f' ({params})' if params else ''}, {stack['order']} order"
        rows.append((f"Controller {name}", f"{what}, digest {first['controller_digest'][:SHORT]}{policy}"))
    return rows


def made_rows(made: Mapping[str, Any]) -> Rows:
    """Rows of a `ncc.harness.manifest.provenance`."""
    git = made["git"]
    commit = git["commit"] or f"unknown: {git.get('note', '')}"
    if git["dirty"]:
        commit += f", with changes that no commit has ({git.get('changes')})"
    load = made.get("load_average")
    return [
        ("Command", made.get("command") or "not recorded"),
        ("Commit", commit),
        (
            "Versions",
            ", ".join([f"ncc {made['ncc']}", f"Python {made['python']}", *map(" ".join, made["packages"].items())]),
        ),
        ("Machine", f"{made['processor']}, {made['cpus_usable']} of {made['cpus']} CPUs; {made['platform']}"),
        *([("Load average", f"{load['1_min']:.2f} (1 min) when it ended")] if load else []),
        ("Written", made["written_at"]),
    ]


def _files(n: int) -> Rows:
    return [("Files", f"{n} checked against their SHA-256")]


def _ranges(seeds: Sequence[int]) -> str:
    ordered = sorted(seeds)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]} to {ordered[-1]}"
    return ", ".join(map(str, ordered))
