# SPDX-License-Identifier: BSD-3-Clause
"""Golden curves: the window of every controller and front end under its stimuli, one JSON file for each."""

import json
import os
from pathlib import Path

from ncc.baselines.registry import controllers, named
from tests.baselines import asking
from tests.baselines.sender import MSS, Sender
from tests.baselines.stimuli import STIMULI

FOLDER = Path(__file__).parent

Curves = dict[str, dict[str, list[int]]]


def names() -> list[str]:
    """All that have curves."""
    return sorted([*controllers(), *(name for name in named("front end") if name != "one_all")])


def draw(name: str) -> Curves:
    """By stimulus: cwnd in whole packets after every event, and the event numbers of losses and timeouts.

    Of a front end: the window in queries after every answer, and the numbers of late answers.
    """
    if name not in controllers():
        runs = {title: asking.run(name, asked) for title, asked in asking.STIMULI.items()}
        return {title: {"window": windows, "late": late} for title, (windows, late, _) in runs.items()}
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
