# SPDX-License-Identifier: BSD-3-Clause
"""A small experiment as plain data, with everything that a YAML may say."""

import copy
from typing import Any

PLAIN: dict[str, Any] = {
    "title": "A toy",
    "paper": {"title": "Paper", "figure": "Figure 1", "section": "2", "shows": "something"},
    "scenario": {
        "name": "toy",
        "topology": {"kind": "many_to_one", "senders": 2, "buffer_bytes": 300_000},
        "workload": {"long": {"kind": "long", "sources": "senders", "destinations": "receiver", "flows": 2}},
        "duration_s": 0.1,
        "period_s": 0.01,
        "drain_s": 1.0,
    },
    "contenders": {
        "gentle": {"controller": "dctcp", "params": {"g_shift": 4}},
        "plain": {"controller": "newreno", "changes": {"scenario.topology.mark_threshold_bytes": 0}},
    },
    "axes": {
        "k": {
            "label": "K (packets)",
            "values": [10, 20],
            "sets": [{"key": "scenario.topology.mark_threshold_bytes", "scale": 1500}],
        },
        "size": {
            "label": "buffer",
            "cases": {
                "small": {"scenario.topology.buffer_bytes": 100_000, "contenders.gentle.params.g_shift": 5},
                "large": {},
            },
        },
    },
    "measures": {"queue": {"kind": "queue"}, "use": {"kind": "utilisation"}},
    "checks": {
        "less": {
            "kind": "order",
            "claim": "a shorter queue",
            "measure": "queue",
            "one": "gentle",
            "other": "plain",
            "relation": "<=",
        }
    },
    "values": [{"measure": "queue", "contender": "gentle", "value": 15e3, "source": "table 1", "at": {"k": 10}}],
    "panels": [{"measure": "queue"}],
    "presets": {
        "quick": {
            "seeds": 1,
            "reduced": "less",
            "wall_s": 1,
            "axes": {"size": ["large"]},
            "changes": {"scenario.duration_s": 0.05},
        },
        "full": {"seeds": 2, "reduced": "nothing", "wall_s": 1},
    },
}


def toy(**changes: Any) -> dict[str, Any]:
    """The toy with values at keys such as `axes.k.values` (written with two underscores for each dot)."""
    plain = copy.deepcopy(PLAIN)
    for key, value in changes.items():
        *parents, last = key.split("__")
        at = plain
        for part in parents:
            at = at[part]
        at[last] = value
    return plain
