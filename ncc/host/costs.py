# SPDX-License-Identifier: BSD-3-Clause
"""What the kernel does for us, and what it costs: per ACK, per callback, per program that its verifier goes through."""

import json
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError
from ncc.envs.linux import objects
from ncc.envs.linux.callbacks import count_callbacks
from ncc.envs.linux.cost import measure
from ncc.host.runs import Preset, patiently, watched

VERIFIER = Path("tests/linux/verifier.json")


def cost(preset: Preset) -> dict[str, Any]:
    """What an ACK costs in ns under every controller, measured several times one after the other."""
    found: dict[str, list[float]] = {}
    counting_ns = 0.0
    with watched() as load:
        for _ in range(preset.costs):
            rows, counting_ns = patiently(lambda: measure(objects.controllers(), preset.cost_s))
            for row in rows:
                found.setdefault(row.name, []).append(round(row.ns_per_ack, 1))
    return {"ns_per_ack": found, "counting_ns": round(counting_ns, 1), "load": load}


def callbacks(preset: Preset) -> dict[str, Any]:
    """Answers of a callback that arrived as something else."""
    with watched() as load:
        found = patiently(lambda: count_callbacks(preset.callbacks_s))
    return {**vars(found), "sentence": found.sentence(), "load": load}


def verifier(_: Preset) -> dict[str, Any]:
    """Instructions that the kernel's verifier went through, as the file says that CI compares with."""
    if not VERIFIER.is_file():
        raise ConfigError(f"{VERIFIER} is not here: run the report in the root of a checkout")
    return {"objects": json.loads(VERIFIER.read_text())["objects"]}
