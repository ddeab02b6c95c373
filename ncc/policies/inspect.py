# SPDX-License-Identifier: BSD-3-Clause
"""A description of a policy file, in lines for the terminal."""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.policies.file import PolicyFile
from ncc.policies.header import PolicyHeader
from ncc.policies.limits import RateBounds

PER_LINE = 6
"""Names of observed numbers per line."""


def lines(found: PolicyFile, where: str) -> list[str]:
    """A line per field; text that others may have put there is quoted unless it is one plain word."""
    header = found.header
    rows = [
        ("policy", f"{header.name}: {_shape(header)}, {header.n_weights:,} weights, {header.activation}"),
        ("file", f"format {header.format}, {found.size_bytes:,} bytes, SHA-256 {found.sha256}"),
        ("observation", _observation(header)),
        *(("", text) for text in _entries(header)),
        ("actions", _actions(header)),
        ("period", f"{header.period_s:g} s"),
        *(("trained on", text) for text in header.trained.lines()),
        ("limits", _limits(header.limits)),
        ("stack", _stack(header.stack)),
        ("fallback", _fallback(header.fallback)),
        *(("trained", text) for text in _origin(header)),
    ]
    return [f"{where}: checked in full", *(f"{name:12} {text}".rstrip() for name, text in rows)]


def _shape(header: PolicyHeader) -> str:
    hidden = "".join(f" -> {outputs}" for outputs, _ in header.layers[:-1])
    return f"{header.obs_dim} numbers{hidden} -> {header.n_actions} actions"


def _observation(header: PolicyHeader) -> str:
    spec, near = header.observation, header.neighbours
    scales = ", ".join(f"{name} {getattr(spec, name + '_scale'):g}" for name in ("rtt", "wait", "backlog", "flows"))
    who = "any number of neighbours" if near is None else f"{near} neighbours"
    low, high = header.entry_range
    return (
        f"neighbours {spec.neighbours} ({who}), ages {'yes' if spec.ages else 'no'}; scales: {scales}; "
        f"numbers from {low:g} to {min(high, spec.ceiling):g}:"
    )


def _entries(header: PolicyHeader) -> list[str]:
    names = iter(header.entries)
    return [", ".join(row) for row in iter(lambda: tuple(islice(names, PER_LINE)), ())]


def _actions(header: PolicyHeader) -> str:
    table = header.table
    said = ", ".join("no limit" if multiple is None else f"{multiple:g}" for multiple in table.multiples)
    floor = f"; at least {table.floor_frac:g} of the link rate" if table.floor_frac else ""
    guard = f"; after a period with flows at least {table.guard_frac:g} of the share among alike"
    guard = guard if table.guard_frac else ""
    return f"times the {table.unit}: {said}{floor}{guard}"


def _limits(bounds: RateBounds) -> str:
    ratios = ((bounds.rise_ratio, "rise at most"), (bounds.fall_ratio, "fall at most"))
    slew = [f"{name} {ratio:g}-fold per period" for ratio, name in ratios if ratio is not None]
    return f"{bounds.min_rate_frac:g} to {bounds.max_rate_frac:g} of the link rate, or none; " + (
        ", ".join(slew) or "no slew limits"
    )


def _stack(stack: HostStack) -> str:
    def said(name: str, params: tuple[tuple[str, int], ...]) -> str:
        return name + "".join(f" {key}={value}" for key, value in params)

    return f"{said(stack.transport, stack.params)}, order {said(stack.order, stack.order_params)}"


def _fallback(controller: Controller) -> str:
    return f"{controller.name}: {_stack(controller.stack)}, no limit"


def _origin(header: PolicyHeader) -> list[str]:
    origin = header.origin
    git = origin.provenance.get("git")
    commit = git.get("commit") if isinstance(git, Mapping) else None
    dirty = git.get("dirty") if isinstance(git, Mapping) else None
    clean = "" if dirty is False else " with changes" if dirty is True else " in an unknown state"
    return [
        f"from {json.dumps(origin.source)}, seed {origin.seed}, at commit {_quoted(commit)}{clean}, "
        f"by ncc {_quoted(origin.provenance.get('ncc'))} on {_quoted(origin.provenance.get('written_at'))}; "
        f"exported by ncc {_quoted(origin.exported_by)}",
        f"its .npz has SHA-256 {origin.policy_sha256}",
        f"scenario {_quoted(_name(header.training.get('scenario')))}, families {_families(header.training)}",
    ]


def _families(training: Mapping[str, Any]) -> str:
    families = training.get("families")
    of = families.get("of") if isinstance(families, Mapping) else None
    return ", ".join(map(_quoted, of)) if isinstance(of, Mapping) and of else "none"


def _name(scenario: object) -> object:
    return scenario.get("name") if isinstance(scenario, Mapping) else None


def _quoted(text: object) -> str:
    """A plain word as it is; anything else as JSON, which escapes what a terminal would obey."""
    plain = isinstance(text, str) and text.isascii() and text.isprintable() and " " not in text and text != ""
    return str(text) if plain else json.dumps(text)[:200]
