# SPDX-License-Identifier: BSD-3-Clause
"""Golden curves: the window of every controller under the standard stimuli, one JSON file per controller."""

import json
import os
from pathlib import Path

from tests.baselines.sender import MSS, Sender
from tests.baselines.stimuli import STIMULI

FOLDER = Path(__file__).parent

Curves = dict[str, dict[str, list[int]]]


def draw(name: str) -> Curves:
    """By stimulus: cwnd in whole packets after every event, and the event numbers of losses and timeouts."""
    curves: Curves = {}
    for title, stimulus in STIMULI.items():
        curve = Sender(name, stimulus).run().curve
        curves[title] = {
            "cwnd_pkts": [cwnd // MSS for _, cwnd, _ in curve],
            "losses": [i for i, (event, _, _) in enumerate(curve) if event == "loss"],
            "timeouts": [i for i, (event, _, _) in enumerate(curve) if event == "timeout"],
        }
    return curves


def path(name: str) -> Path:
    return FOLDER / f"{name}.json"


def load(name: str) -> Curves:
    curves: Curves = json.loads(path(name).read_text())
    return curves


def save(name: str, curves: Curves) -> None:
    """One line per list, so that a change shows as a diff of the curve that changed."""
    lines = [
        json.dumps(title)
        + ": {\n  "
        + ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items())
        + "\n}"
        for title, rows in curves.items()
    ]
    partial = path(name).with_suffix(".tmp")
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(partial, path(name))  # noqa: PTH105
