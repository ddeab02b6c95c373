# SPDX-License-Identifier: BSD-3-Clause
"""Importance of groups of observed numbers to a policy.

``python -m studies.learned ncc --families mixture --of incast --networks 32`` prints two numbers for each group
(`GROUPS`). The first is the usual factor by which the limit changes if the group's numbers come from another state.
The second is the mean flow completion time with the group fixed at its mean over busy hosts, over that of the policy
itself: the geometric mean over networks drawn at random, with a 95 % bootstrap interval over them. All runs have the
same flows. The formula and the guard see the true numbers.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ncc.agents.policy import Layer, load_policy, save_policy
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.harness.batch import ObsArray
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.run import eval_flow_seed
from ncc.results.learned import Learned, load_learned, observed
from ncc.results.palette import styles
from ncc.results.plot import new_figure, save_figure
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import Decider, LimiterFactory
from studies.random_networks import count, drawn, geometric, load_families, play

INK = "#333333"
GROUPS = {
    "order: bytes and hosts before": ("bytes ahead", "bytes just ahead", "hosts before"),
    "own flows": ("queued_bytes", "queued_flows", "next bytes", "next bytes before", "queued flows before"),
    "own time busy, waiting": ("busy for", "wait"),
    "own rate, limit and RTT": ("rate_limit", "goodput", "rtt"),
    "room that shorter flows leave": (
        "room after much shorter",
        "room after shorter",
        "share among alike",
        "share over fair",
    ),
    "the tuned formula": ("tuned limit", "tuned over fair"),
    "number of busy hosts": ("busy share", "fair share", "busy hosts", "hosts alike"),
    "bursts: hosts begun": ("hosts begun", "begin together", "after burst"),
    "neighbours' bytes and waiting": (
        "queued_bytes mean",
        "queued_bytes max",
        "mean_wait mean",
        "mean_wait max",
    ),
    "neighbours' rates": ("throughput mean", "throughput max"),
    "the uplink's rate and queue": ("uplink throughput", "uplink queue"),
    "wasted room": ("wasted room",),
    "the network's constants": ("static share", "period", "buffer"),
    "ages of messages": ("age mean", "age max", "uplink age"),
}
"""Groups of entries of an observation, by name; the entries of a group have similar meanings."""
ALL = "all of them"
"""Name of the group of all entries."""


@dataclass(frozen=True)
class Importance:
    """Importance of each group of observed numbers to one policy."""

    label: str
    """Label of the policy."""
    names: tuple[str, ...]
    """Names of the groups."""
    change: FloatArray
    """[groups] mean absolute change of the logarithm of the limit if the group's numbers come from another state."""
    without: FloatArray
    """[groups, 3] ratio of mean FCTs, with the group's numbers fixed at their means over that of the policy itself: the
    geometric mean over networks, and the ends of its 95 % interval."""

    @property
    def ranked(self) -> IntArray:
        """Indices of the groups in descending order of the mean FCT without them."""
        order: IntArray = np.argsort(-self.without[:, 0], kind="stable")
        return order


def groups_of(learned: Learned) -> dict[str, tuple[int, ...]]:
    """Positions in an observation by group; an entry that is in none of `GROUPS` is a group by itself."""
    grouped = {entry for entries in GROUPS.values() for entry in entries}
    named = {**GROUPS, **{entry: (entry,) for entry in learned.entries if entry not in grouped}}
    at = {
        name: [i for entry in of if entry in learned.entries for i in learned.at(entry)] for name, of in named.items()
    }
    return {name: tuple(places) for name, places in at.items() if places}


def permuted(
    learned: Learned, seen: Sequence[tuple[Scenario, ObsArray]], groups: Iterable[Sequence[int]], *, seed: int = 0
) -> FloatArray:
    """Compute the mean absolute change of the log rate, [groups], if a group's numbers come from another state.

    Only the policy sees the foreign numbers; the formula and the guard see the true ones.

    Args:
        seen: networks, each with the observations [n, obs_dim] of its hosts.
        groups: positions of each group's numbers in an observation.
        seed: seed by which the other states are drawn.
    """
    obs, ends = np.concatenate([rows for _, rows in seen]), np.cumsum([len(rows) for _, rows in seen])[:-1]
    rng, changes = generator(seed, "permuted"), []
    for places in groups:
        changed, at = obs.copy(), list(places)
        changed[:, at] = obs[rng.permutation(len(obs))][:, at]
        size = []
        for (network, rows), other in zip(seen, np.split(changed, ends), strict=True):
            there = learned.on(network)
            size.append(np.abs(there.log_rate(rows, other) - there.log_rate(rows)))
        changes.append(np.concatenate(size).mean())
    return np.array(changes)


def blinded(learned: Learned, places: Sequence[int], stand: FloatArray) -> tuple[Layer, ...]:
    """Change a policy's layers so that it always sees the values of `stand` [obs_dim] at the positions `places`."""
    (weight, bias), *rest = learned.policy.layers
    at, kept = list(places), weight.copy()
    kept[:, at] = 0
    return ((kept, bias + weight[:, at] @ stand[at].astype(np.float32)), *rest)


def importance(name: str, networks: Sequence[Scenario], run: Path | None = None, *, seed: int = 1) -> Importance:
    """Compute the importance of each group of numbers, and of all together, to a controller's policy.

    Args:
        name: name of the controller.
        networks: networks on which it runs.
        run: run folder of its policy; None: the policy in the package.
        seed: seed of the flows.

    Raises:
        ConfigError: the controller has no policy, or a policy file for hosts, or no host ever has something to send.
    """
    controller, learned = load_learned(load_controller(name), run)
    seen = states(controller, learned, networks, run)
    mean = np.concatenate([obs for _, obs in seen]).mean(axis=0)
    groups = {**groups_of(learned), ALL: tuple(range(learned.policy.obs_dim))}
    base = play(controller, networks, seed, LimiterFactory(run)).mean_fct_s
    without = []
    for places in groups.values():
        with _blind(controller, learned, places, mean, run) as blind:
            taken_s = play(blind, networks, seed, LimiterFactory(run)).mean_fct_s
        without.append(geometric(np.log(taken_s / base)))
    change = permuted(learned, seen, groups.values(), seed=seed)
    return Importance(label=learned.label, names=tuple(groups), change=change, without=np.array(without))


def states(
    controller: Controller, learned: Learned, networks: Sequence[Scenario], run: Path | None
) -> list[tuple[Scenario, ObsArray]]:
    """Run the policy on each network that has a flow; return the networks with the observations of their busy hosts."""
    datapath = load_datapath("packetsim")
    return [
        (network, observed(learned, controller, network, datapath, seed=number, run=run))
        for number, network in enumerate(networks)
        if len(network.flows(eval_flow_seed(number)))
    ]


@contextmanager
def _blind(
    controller: Controller, learned: Learned, places: Sequence[int], stand: FloatArray, run: Path | None
) -> Iterator[Controller]:
    """Provide the controller with a policy that always sees the values of `stand` [obs_dim] at positions `places`."""
    limit = controller.limit
    assert isinstance(limit, PolicyLimit), "it has a policy"
    path = LimiterFactory(run).path(controller.name, limit)
    with TemporaryDirectory() as folder:
        target = Path(folder) / "policy.ncc"
        save_policy(target, blinded(learned, places, stand), load_policy(path)[1])
        yield controller.replace(limit=limit.replace(path=str(target)))


def importance_bars(found: Importance, path: Path) -> None:
    """Draw how much each group changes the decision, and the mean FCT without it, the most important group first."""
    order = found.ranked
    rows = np.arange(len(order))
    figure, (decision, flows) = new_figure(2, width=8.2, height=1.3 + 0.3 * len(order), sharey=True)
    colour = styles([found.label])[found.label].colour
    decision.barh(rows, np.exp(found.change[order]) - 1, height=0.62, color=colour, alpha=0.75, lw=0)
    decision.set_yticks(rows, [found.names[i] for i in order], fontsize=9)
    decision.set_ylim(len(rows) - 0.4, -0.6)
    decision.xaxis.set_major_formatter(lambda x, _: f"{1 + x:g}")
    decision.set_xlabel("usual factor between limits, if it is\ntold of another state (1: none)", fontsize=9)
    decision.set_title("the decision", loc="left", fontsize=10)
    middle, low, high = found.without[order].T
    style: dict[str, Any] = {"fmt": "o", "color": colour, "ecolor": INK, "capsize": 2.5, "ms": 5.5, "lw": 1.4}
    flows.errorbar(middle, rows, xerr=[middle - low, high - middle], **style)
    flows.axvline(1, color=INK, lw=0.8)
    flows.set_xlabel("mean FCT if it always says its mean,\nover that of the policy", fontsize=9)
    flows.set_title("what flows take without it", loc="left", fontsize=10)
    for axes in (decision, flows):
        axes.grid(visible=False, axis="y")
    save_figure(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status (`ncc.core.options.exit_status`)."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m studies.learned", description=__doc__)
    parser.add_argument("controller", help="a learned one, as for ncc evaluate controller=")
    parser.add_argument("--families", default="mixture", help="name in configs/families")
    parser.add_argument("--of", nargs="+", default=["incast"], help="names of some of these families")
    parser.add_argument("--networks", type=count, default=32)
    parser.add_argument("--seed", type=count, default=1, help="of networks and flows, from 1")
    options = parser.parse_args(arguments)
    networks = drawn(load_families(options.families, options.of), options.seed, options.networks)
    factory, controller = LimiterFactory(None), load_controller(options.controller)
    networks = [network for network in networks if factory.decider(controller, network)[0] is Decider.ITSELF]
    if not networks:
        raise ConfigError(
            f"{options.controller} decides in none of these networks ({Decider.LOCAL.value}): name other --families"
        )
    print(f"{len(networks)} of {options.networks} networks are inside its ranges")
    result = importance(options.controller, networks, seed=options.seed)
    print(f"{'':32} {'decision':>9}  mean FCT without it")
    for i in result.ranked:
        mean, low, high = result.without[i]
        print(f"{result.names[i]:32} x {np.exp(result.change[i]):7.2f}  {mean:.3f} [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
