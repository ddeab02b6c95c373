# SPDX-License-Identifier: BSD-3-Clause
"""Data of a league's result: what contenders need, digests of flows, and a value per seed.

Plain data is that of `ncc.study.result.Result.to_dict`. A contender that was run later, on the same flows, is placed
among those of an earlier result (`placed`).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ncc.baselines import registry
from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import FlowTable, columns_of
from ncc.core.scenario import Scenario
from ncc.harness.controller import (
    Controller,
    LocalLimit,
    MaxMinLimit,
    NoLimit,
    PolicyLimit,
    ReceiverRuleLimit,
    ShortestFirstLimit,
)
from ncc.harness.run import eval_flow_seed
from ncc.study.points import Grid as Runs
from ncc.study.spec import Contender, Need
from ncc.study.table import At, Table, rounded, text_of

Plain = Mapping[str, Any]
"""Data of `ncc.study.result.Result.to_dict`."""
MEANING: dict[Need, str] = {
    "marks": "switches mark packets (ECN)",
    "tuning": "settings for each kind of network, or a training",
    "sizes": "hosts know how long a flow is",
    "words": "messages beside data: of hosts, receivers or both ends",
    "agents": "a program on each host that limits rates or windows",
    "classes": "switches with priorities, which today's have",
    "routes": "another choice of paths than a hash of the flow",
    "switches": "switches do something that today's do not",
    "stack": "a new transport at both ends in place of TCP",
    "oracle": "perfect knowledge, which nobody has",
}
GROUPS: tuple[tuple[str, frozenset[Need]], ...] = (
    ("TCP, and ports that drop or mark", frozenset()),
    ("Agents on hosts", frozenset({"agents"})),
    ("Settings of today's switches", frozenset({"classes", "routes"})),
    ("New switches", frozenset({"switches"})),
    ("New transports of both ends", frozenset({"stack"})),
    ("Perfect knowledge, without a rank", frozenset({"oracle"})),
)
"""Groups of contenders, by their dearest need: a contender is in the last group one of whose needs it has."""
BY_SIZE = frozenset({"srpt", "sjf", "upsilon", "remaining", "by_size"})
"""Orders of hosts and tags that read sizes of flows."""
PUBLISHED = "league.json"
ALL = "run all contenders here: add all=true"
_OF_RANKS = frozenset({"ranking", "seeds", "axes", "flows", "per_seed", "needs", "cannot", "cells", "commits"})
"""Keys of a result that has ranks."""


def needs_of(contender: Contender, controller: Controller, scenario: Scenario) -> tuple[Need, ...]:
    """List what a contender needs, from its settings in a scenario, and from `Contender.needs`."""
    stack, topology = controller.stack, scenario.topology
    limits = [limit for limit in (controller.limit, controller.receivers) if not isinstance(limit, NoLimit | None)]
    known = registry.controllers()
    both_ends = any(name in registry.message_transports() for name in stack.transports)
    rules = [limit for limit in limits if isinstance(limit, ReceiverRuleLimit)]
    talks = any(isinstance(limit, LocalLimit | PolicyLimit) for limit in limits)
    sets_thresholds = talks and stack.tags == "pias"  # by sizes of flows that have ended
    needed: dict[Need, bool] = {
        "marks": bool(topology.red)
        or any(known[name].ecn is not registry.Ecn.NONE for name in stack.transports if name in known),
        "tuning": bool(contender.tuned) or any(isinstance(limit, PolicyLimit) for limit in limits),
        "sizes": bool({stack.order, stack.tags} & BY_SIZE)
        or (talks and not sets_thresholds)
        or any(r.order == "remaining" for r in rules),
        "words": both_ends or talks or controller.limit.needs_receivers or bool(rules),
        "agents": bool(limits),
        "classes": topology.classes > 1,
        "routes": scenario.routing != "ecmp",
        "switches": bool(topology.programs or topology.shaped_frac or topology.control_first or topology.bcc)
        or topology.mark_on_departure,
        "stack": both_ends,
        "oracle": stack.messages == "instant"
        or any(isinstance(limit, MaxMinLimit | ShortestFirstLimit) for limit in limits),
    }
    return tuple(need for need in get_args(Need) if needed[need] or need in contender.needs)


def group_of(needs: Iterable[str]) -> int:
    """Index in `GROUPS` of a contender with these needs."""
    return max(i for i, (_, dear) in enumerate(GROUPS) if i == 0 or dear & set(needs))


def flows_digest(flows: FlowTable) -> str:
    """Digest (16 hex digits) of flows as they are drawn: starts, ends, sizes, components and requests."""
    columns = columns_of(flows)
    parts = [f"{name} {np.asarray(column).dtype.str} ".encode() + column.tobytes() for name, column in columns.items()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def flow_digests(runs: Runs, seeds: Sequence[int]) -> dict[At, list[str]]:
    """Compute the digest of the flows of each seed, by point.

    Raises:
        ConfigError: a contender would meet other flows than the others at a point.
    """
    digests: dict[At, list[str]] = {}
    for cell in runs.cells:
        if cell.point not in digests:
            digests[cell.point] = [flows_digest(cell.scenario.flows(eval_flow_seed(seed))) for seed in seeds]
        elif flows_digest(cell.scenario.flows(eval_flow_seed(seeds[0]))) != digests[cell.point][0]:
            raise ConfigError(
                f"contender {cell.contender!r} has other flows than the others at {where(cell.point)}: let its "
                "changes leave the workload, the hosts, and the rates of links as they are"
            )
    return digests


def runs_facts(runs: Runs, seeds: Sequence[int]) -> dict[str, Any]:
    """Collect, before any run is done, what makes runs comparable with others: ranking, seeds, axes, digests of flows.

    Raises:
        ConfigError: see `flow_digests`.
    """
    ranking = runs.experiment.ranking
    assert ranking is not None
    return {
        "ranking": {**ranking.to_dict(), "beside": list(ranking.beside)},
        "seeds": list(seeds),
        "axes": {axis: {"label": runs.experiment.axes[axis].label, "points": list(p)} for axis, p in runs.axes.items()},
        "flows": [{"at": list(at), "digests": digests} for at, digests in flow_digests(runs, seeds).items()],
    }


def league_facts(runs: Runs, seeds: Sequence[int], table: Table) -> dict[str, Any]:
    """Collect what tables of ranks need, as plain data: needs, unmet needs, digests of flows, and a value per seed."""
    facts = runs_facts(runs, seeds)
    measure = facts["ranking"]["measure"]
    needs: dict[str, dict[Need, None]] = {}
    for cell in runs.cells:
        contender = runs.experiment.contenders[cell.contender]
        needed = needs_of(contender, cell.controller, cell.scenario)
        needs.setdefault(cell.contender, {}).update(dict.fromkeys(needed))
    order = get_args(Need)
    return {
        **facts,
        "needs": {name: sorted(of, key=order.index) for name, of in needs.items()},
        "cannot": [{"contender": name, "at": list(at), "why": why} for (name, at), why in runs.cannot.items()],
        "per_seed": [
            {
                "contender": cell.contender,
                "at": list(cell.point),
                "values": [rounded(value) for value in table.values[measure, cell.contender, cell.point]],
            }
            for cell in runs.cells
        ],
    }


def require_same_flows(own: Plain, published: Plain) -> None:
    """Raise `ResultError` unless contenders can be placed in a published result; the message says how to run all.

    Args:
        own: ranking, seeds, axes and digests of flows of the runs, which may still be to be done.
    """
    seeds = published["seeds"]
    if own["ranking"] != published["ranking"] or set(own["axes"]) != set(published["axes"]):
        raise ResultError(f"the published table has another ranking or other axes: {ALL}")
    if missing := [seed for seed in own["seeds"] if seed not in seeds]:
        raise ResultError(f"the published table has seeds {seeds[0]} to {seeds[-1]}, and not {missing[0]}: {ALL}")
    chosen = [seeds.index(seed) for seed in own["seeds"]]
    flows = {tuple(entry["at"]): [entry["digests"][i] for i in chosen] for entry in published["flows"]}
    for entry in own["flows"]:
        if flows.get(tuple(entry["at"])) != entry["digests"]:
            raise ResultError(f"the published table has other flows at {where(entry['at'])}: {ALL}")


def placed(own: Plain, published: Plain) -> dict[str, Any]:
    """Add the contenders of a result to those of a published one, on the seeds of the former.

    Raises:
        ResultError: as of `require_same_flows`; or the two have other values of their reference, which both have run,
            so that the code of the published runs was another one.
    """
    require_same_flows(own, published)
    reference = published["ranking"]["reference"]
    chosen = [published["seeds"].index(seed) for seed in own["seeds"]]
    points = [tuple(entry["at"]) for entry in own["flows"]]

    def per_seed(of: Plain) -> dict[tuple[str, At], list[float | None]]:
        return {(entry["contender"], tuple(entry["at"])): entry["values"] for entry in of["per_seed"]}

    theirs = {key: [values[i] for i in chosen] for key, values in per_seed(published).items() if key[1] in set(points)}
    ours = per_seed(own)
    for point in points:
        if ours[reference, point] != theirs[reference, point]:
            raise ResultError(
                f"this code's runs of {reference} at {where(point)} differ from the published ones (commit "
                f"{', '.join(published['commits'])}): {ALL}"
            )
    new = [name for name in own["needs"] if name != reference]
    kept = {**published, **{key: own[key] for key in ("seeds", "runs_text", "flows", "axes")}}
    both = {**theirs, **{key: values for key, values in ours.items() if key[0] in new}}
    return {
        **kept,
        "contenders": {**published["contenders"], **{name: own["contenders"][name] for name in new}},
        "needs": {**published["needs"], **{name: own["needs"][name] for name in new}},
        "cannot": [entry for of in (published, own) for entry in of["cannot"] if tuple(entry["at"]) in set(points)],
        "per_seed": [{"contender": name, "at": list(at), "values": values} for (name, at), values in both.items()],
        "cells": [cell for cell in published["cells"] if tuple(cell["at"]) in set(points)]
        + [cell for cell in own["cells"] if cell["contender"] in new],
    }


def published_in(path: str | None) -> dict[str, Any]:
    """Read a league's result: a result.json, a file of docs/experiments, or (None) the league that came with ncc.

    Raises:
        ConfigError: there is no such file.
        ResultError: it holds no result with ranks.
    """
    package = Path(str(files("ncc.study")))
    places = [folder / PUBLISHED for folder in (package.parents[1] / "docs" / "experiments", package)]
    file = Path(path) if path is not None else next((place for place in places if place.is_file()), places[-1])
    try:
        plain = json.loads(file.read_bytes())
    except FileNotFoundError:
        missing = "ncc came without a published league" if path is None else f"there is no file {path}"
        raise ConfigError(
            f"{missing}: run all contenders here, all=true, or name the result.json of such a run, published=<file>"
        ) from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{file} cannot be read ({error}); name another one, published=<file>") from None
    results = plain.get("results", {"": plain}) if isinstance(plain, dict) else {}
    for result in results.values():
        if result.keys() >= _OF_RANKS:
            return dict(result)
    raise ResultError(f"{file} holds no result with ranks; name the result.json of ncc league, published=<file>")


def where(at: Iterable[float | str]) -> str:
    """Return a point as text."""
    return ", ".join(map(text_of, at))
