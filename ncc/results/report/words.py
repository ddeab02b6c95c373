# SPDX-License-Identifier: BSD-3-Clause
"""Descriptions of scenarios and trainings, as texts and as rows of (name, value)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.core.workload import offered_load
from ncc.results.report.sources import Training
from ncc.run.compose import agent_name

Rows = list[tuple[str, str]]
LONG = 8
"""Length of the longest list whose entries are shown; of longer ones, only the length is."""


def scenario_rows(scenario: Scenario) -> Rows:
    """Rows that describe a scenario, which is everything that was run except the controllers."""
    network, plain = scenario.network(), scenario.to_dict()
    loads = [
        f"{100 * load:.3g} % of the rate of {network.port_name(port)}"
        for port, load in offered_load(scenario.workload, network).items()
    ]
    rest = {key: value for key, value in plain.items() if key not in ("name", "topology", "workload", "transport")}
    return [
        ("Network", settings(plain["topology"])),
        ("Links", _links(network)),
        ("Hosts under control", str(scenario.n_agents)),
        ("Shared uplinks", _uplinks(network)),
        *((f"Traffic: {name}", settings(traffic.to_dict())) for name, traffic in scenario.workload),
        *([("Offered payload", "; ".join(loads))] if loads else []),
        ("Transport", settings(plain["transport"])),
        ("Time and messages", settings(rest)),
        ("Digest", scenario.digest()),
    ]


def settings(plain: Mapping[str, Any]) -> str:
    """Text of all keys with their values. Keys without a value are left out; of long lists only the length is shown."""
    return ", ".join(f"{key} {_text(value)}" for key, value in plain.items() if value not in (None, "", (), [], {}))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({settings(value)})"
    if isinstance(value, list | tuple):
        return f"of {len(value)} entries" if len(value) > LONG else ", ".join(map(_text, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def amount(value: float, unit: str) -> str:
    """Format an amount with a metric prefix: 4 Gbit/s, 10 µs, 30 kB."""
    if value == 0:
        return f"0 {unit}"
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= scale * (1 - 1e-12) and (scale <= 1 or unit != "s"):
            return f"{value / scale:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def _took(seconds: float) -> str:
    """Format a duration of computing, given in seconds: 5 s, 12.5 min."""
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def _links(network: Topology) -> str:
    """Text that counts equal links, as in `4 x h to tor: 1 Gbit/s, 1 ms`.

    Links are equal if they have the same rate, delay and names of their ends without numbers.
    """
    stems = [node.name.rstrip("0123456789_") for node in network.nodes]
    counted = Counter((stems[link.a], stems[link.b], link.rate_bps, link.delay_s) for link in network.links)
    return "; ".join(
        f"{n} x {a} to {b}: {amount(rate_bps, 'bit/s')}, {amount(delay_s, 's')}"
        for (a, b, rate_bps, delay_s), n in counted.items()
    )


def _uplinks(network: Topology) -> str:
    ports = [area.uplink_port for area in network.neighbourhoods]
    names = ", ".join(
        f"{network.port_name(port)} ({amount(network.port_rate_bps(port), 'bit/s')})" for port in ports[:3]
    )
    return names + (f" and {len(ports) - 3} more" if len(ports) > 3 else "")


def training_rows(training: Training) -> Rows:
    """Rows that describe the training of the policy."""
    config, facts = training.config, training.manifest.facts
    agent, rewards = config["agent"], config["env"].get("reward")
    epochs = max((row["epochs"] for row in training.rows), default=0)
    rows = [
        ("Agent", agent_name(agent)),
        ("Learned on", ", ".join(config["datapath"])),
        ("Seed", str(facts["seed"])),
        ("Epochs", f"{epochs:,} reported"),
        ("Took", _took(facts["trained_s"])),
    ]
    if isinstance(rewards, Mapping) and "kind" in rewards:
        rows.insert(2, ("Reward", str(rewards["kind"])))
    if (config.get("families") or {}).get("of"):
        rows.append(("Families", ", ".join(config["families"]["of"])))
    return rows
