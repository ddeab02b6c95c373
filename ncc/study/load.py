# SPDX-License-Identifier: BSD-3-Clause
"""An experiment by its name, as the command line composes it."""

import hashlib
import json
from typing import Any

from ncc.baselines.registry import check_params, controllers
from ncc.core.errors import ConfigError, UnknownNameError
from ncc.run.compose import composed, experiment_names
from ncc.run.config_files import read_config
from ncc.run.old_names import now_called
from ncc.study.points import Grid
from ncc.study.spec import Experiment, experiment_from

Loaded = tuple[Experiment, dict[str, Any]]
"""An experiment and its plain scenario."""
RUN_KEYS = ("defaults", "scenario", "contenders", "axes", "measures", "presets")
WORDS = ("label", "reduced", "wall_s", "log")
"""Keys of entries that decide nothing of a run."""


def load_experiment(name: str) -> Loaded:
    """The experiment of configs/experiment/<name>.yaml and its plain scenario.

    Raises:
        UnknownNameError: no such experiment; the message lists what exists.
        ConfigError: names the key and what is allowed.
    """
    if name not in (known := experiment_names()):
        said = now_called("experiment", name)
        raise ConfigError(said) if said else UnknownNameError("experiment", name, known)
    return experiment_from(composed("evaluate", [f"experiment={name}"])["experiment"], f"experiment/{name}")


def runs_digest(grid: Grid) -> str:
    """16 hex digits over all that a grid runs and measures, without words, checks and pictures.

    So a change in a scenario that the experiment inherits, in a controller's YAML, in the defaults of its header or in
    those of a schema gives another one.
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
            if transport in controllers()
        ],
        "measures": {name: _without_words(measure) for name, measure in measures.items()},
        "seeds": preset.seeds,
        **({"first_seed": preset.first_seed} if preset.first_seed else {}),
    }
    return _digest(whole)


def source_digest(name: str) -> str:
    """16 hex digits over what an experiment's YAML says of its runs; comments, words, checks and pictures apart.

    What the YAML inherits is not in it: `runs_digest` has that. Results from before they carried one have this alone.
    """
    plain = read_config("experiment", "experiment", name)
    return _digest({key: _without_words(plain.get(key)) for key in RUN_KEYS})


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_words(part) for key, part in value.items() if key not in WORDS}
    return value
