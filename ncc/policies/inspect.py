# SPDX-License-Identifier: BSD-3-Clause
"""A description of a policy file, in lines for the terminal."""

import json
from collections.abc import Mapping
from itertools import islice

from ncc.harness.datapath import HostStack
from ncc.policies.file import PolicyFile
from ncc.policies.header import PolicyHeader
from ncc.policies.limits import RateBounds

PER_LINE = 6
"""Names of observed numbers per line."""


def lines(found: PolicyFile, where: str) -> list[str]:
    """A line per field; text that others may have put there is quoted."""
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
        ("fallback", f"{header.fallback.name}: {_stack(header.fallback.stack)}, no limit"),
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


def _origin(header: PolicyHeader) -> list[str]:
    origin, made, training = header.origin, header.origin.provenance, header.training
    return [
        f"from {_shown(origin.source)}, seed {origin.seed}, at commit {_shown(made, 'git', 'commit')} (changed: "
        f"{_shown(made, 'git', 'dirty')}), by ncc {_shown(made, 'ncc')} on {_shown(made, 'written_at')}; exported by "
        f"ncc {_shown(origin.exported_by)}",
        f"its .npz has SHA-256 {origin.policy_sha256}",
        f"scenario {_shown(training, 'scenario', 'name')}, families {_shown(training, 'families', 'of')}",
    ]


def _shown(plain: object, *keys: str) -> str:
    """A value within plain data as JSON, which escapes what a terminal would obey; of a mapping, its keys."""
    for key in keys:
        plain = plain.get(key) if isinstance(plain, Mapping) else None
    return json.dumps(list(plain) if isinstance(plain, Mapping) else plain)[:200]
