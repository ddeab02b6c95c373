# SPDX-License-Identifier: BSD-3-Clause
"""Groups of observed numbers that belong together, and what a policy does without what one of them says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ncc.agents.policy import Layer
from ncc.core.flows import FloatArray, IntArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.harness.batch import ObsArray
from ncc.results.insight.learned import Learned

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
"""Entries of an observation in groups; numbers of one group say much the same."""


@dataclass(frozen=True)
class Importance:
    """Worth of each group of observed numbers to a policy."""

    label: str
    """Label of the policy."""
    names: tuple[str, ...]
    """Names of the groups."""
    change: FloatArray
    """[groups] mean size of the change of the logarithm of the limit, where the group is another state's."""
    without: FloatArray
    """[groups, 3] mean FCT if the group stands at its mean, over that of the policy: the geometric mean over networks,
    and its 95 % interval."""

    @property
    def ranked(self) -> IntArray:
        """Indices of the groups, those first without which flows take longest."""
        order: IntArray = np.argsort(-self.without[:, 0], kind="stable")
        return order


def groups_of(learned: Learned) -> dict[str, tuple[int, ...]]:
    """Positions in an observation by group; an entry that is in none of `GROUPS` is one by itself."""
    grouped = {entry for entries in GROUPS.values() for entry in entries}
    named = {**GROUPS, **{entry: (entry,) for entry in learned.entries if entry not in grouped}}
    at = {
        name: [i for entry in of if entry in learned.entries for i in learned.at(entry)] for name, of in named.items()
    }
    return {name: tuple(places) for name, places in at.items() if places}


def permuted(
    learned: Learned, seen: Sequence[tuple[Scenario, ObsArray]], groups: Iterable[Sequence[int]], *, seed: int = 0
) -> FloatArray:
    """Mean size of the change of the log rate [groups] if the policy is told a group's numbers of another state.

    Formula and guard see the true numbers.

    Args:
        seen: networks, and observations [n, obs_dim] in each.
        groups: positions of each group's numbers.
    """
    obs, ends = np.concatenate([rows for _, rows in seen]), np.cumsum([len(rows) for _, rows in seen])[:-1]
    rng, changes = generator(seed, "permuted"), []
    for places in groups:
        told, at = obs.copy(), list(places)
        told[:, at] = obs[rng.permutation(len(obs))][:, at]
        size = []
        for (network, rows), other in zip(seen, np.split(told, ends), strict=True):
            there = learned.on(network)
            size.append(np.abs(there.log_rate(rows, other) - there.log_rate(rows)))
        changes.append(np.concatenate(size).mean())
    return np.array(changes)


def blinded(learned: Learned, places: Sequence[int], stand: FloatArray) -> tuple[Layer, ...]:
    """Layers of a policy to which the numbers at `places` always stand at those of `stand` [obs_dim]."""
    (weight, bias), *rest = learned.policy.layers
    at, kept = list(places), weight.copy()
    kept[:, at] = 0
    return ((kept, bias + weight[:, at] @ stand[at].astype(np.float32)), *rest)
