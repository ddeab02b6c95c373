# SPDX-License-Identifier: BSD-3-Clause
"""Loading of an experiment by its name, as the command line composes it."""

import hashlib
import json
from typing import Any

from ncc.baselines.registry import check_params, transport_params
from ncc.core.errors import UnknownNameError
from ncc.run.compose import composed, experiment_names
from ncc.study.points import Grid
from ncc.study.spec import Experiment, experiment_from

Loaded = tuple[Experiment, dict[str, Any]]
"""An experiment, and its scenario as plain data."""


def load_experiment(name: str) -> Loaded:
    """Load the experiment of configs/experiment/<name>.yaml, and its scenario as plain data.

    Raises:
        UnknownNameError: there is no such experiment; the message lists those that exist.
        ConfigError: a setting is invalid; the message names its key and what is allowed.
    """
    if name not in (known := experiment_names()):
        raise UnknownNameError("experiment", name, known)
    return experiment_from(composed("evaluate", [f"experiment={name}"])["experiment"], f"experiment/{name}")


def runs_digest(grid: Grid) -> str:
    """Digest (16 hex digits) of everything that a grid runs and measures. Texts, checks and figures do not count.

    A grid is all contenders at all points of an experiment.
    It also changes with the scenario on which the experiment builds, the YAML of a controller, the default parameters
    in a controller's header, and the default values of a schema.
    """
    stacks = [cell.controller.stack for cell in grid.cells]
    measures = {name: measure.to_dict() for name, measure in grid.experiment.measures.items()}
    preset = grid.experiment.preset(grid.preset)
    whole = {
        "grid": grid.digest(),
        "params": [
            check_params(transport, dict(params))
            for stack in stacks
            for transport, params in stack.controllers
            if transport in transport_params()
        ],
        "measures": {name: {k: v for k, v in plain.items() if k != "label"} for name, plain in measures.items()},
        "seeds": preset.seeds,
        **({"first_seed": preset.first_seed} if preset.first_seed else {}),
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]
