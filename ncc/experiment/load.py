# SPDX-License-Identifier: BSD-3-Clause
"""An experiment by its name, as the command line composes it."""

import hashlib
import json
from typing import Any

from ncc.compose import experiment_names, plain_config, read_config, register
from ncc.core.errors import UnknownNameError
from ncc.experiment.spec import Experiment, experiment_from


def load_experiment(name: str) -> tuple[Experiment, dict[str, Any]]:
    """The experiment of configs/experiment/<name>.yaml and its plain scenario.

    Raises:
        UnknownNameError: no such experiment; the message lists what exists.
        ConfigError: names the key and what is allowed.
    """
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    if name not in (known := experiment_names()):
        raise UnknownNameError("experiment", name, known)
    register()
    if GlobalHydra.instance().is_initialized():  # inside a main that Hydra composed
        composed = compose("evaluate", [f"experiment={name}"])
    else:
        with initialize_config_module("ncc.configs", version_base=None):
            composed = compose("evaluate", [f"experiment={name}"])
    return experiment_from(plain_config(composed.experiment), f"experiment/{name}")


RUN_KEYS = ("defaults", "scenario", "contenders", "axes", "measures", "presets")
WORDS = ("label", "reduced", "wall_s", "log")
"""Keys of entries that decide nothing of a run."""


def source_digest(name: str) -> str:
    """16 hex digits over what an experiment's YAML says of its runs; comments, words, checks and pictures apart."""
    plain = read_config("experiment", "experiment", name)
    text = json.dumps({key: _without_words(plain.get(key)) for key in RUN_KEYS}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_words(part) for key, part in value.items() if key not in WORDS}
    return value
