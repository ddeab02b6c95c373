# SPDX-License-Identifier: BSD-3-Clause
"""Display of figures and tables in a notebook, the folders of its own runs, and its quick mode."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.run.compose import composed

T = TypeVar("T")
_OF_A_SCENARIO = re.compile(r"[+~]*scenario[./]")
"""Beginning of an override of a scenario: `scenario.<key>` or a group such as `scenario/topology`, with Hydra's signs
for adding (+) and deleting (~)."""
QUICK, RUNS = "NCC_QUICK", "NCC_RUNS"


class Picture:
    """A PNG figure that notebooks display."""

    def __init__(self, png: bytes) -> None:
        self.png = png

    def _repr_png_(self) -> bytes:
        return self.png


class Page:
    """Markdown text that notebooks display."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def shown(draw: Callable[..., None], *args: Any, **kwargs: Any) -> Picture:
    """Draw a figure for display.

    Args:
        draw: function of `ncc.results.plot`.
        args: positional arguments of `draw`.
        kwargs: keyword arguments of `draw`, except `path`.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(*args, path=path, **kwargs)
        return Picture(path.read_bytes())


def choose(*, quick: T, full: T) -> T:
    """Choose a value: `quick` if NCC_QUICK is 1, so that the notebook runs in seconds, else `full`.

    Raises:
        ConfigError: NCC_QUICK is neither 0 nor 1.
    """
    value = os.environ.get(QUICK, "0")
    if value not in ("0", "1", ""):
        raise ConfigError(f"{QUICK} must be 1 (run in seconds) or 0 (as the notebooks are meant), got {value!r}")
    return quick if value == "1" else full


def own_folder(name: str, what: Any) -> Path:
    """Make the path of the folder for a notebook's own run, from a name and a digest of the run's settings `what`."""
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return Path(os.environ.get(RUNS) or "runs") / "notebooks" / f"{name}_{digest}"


def scenario_of(name: str, *overrides: str) -> Scenario:
    """Load a scenario, by its name or by the path of a YAML file, with overrides as on the command line.

    Raises:
        ConfigError: the scenario or a key is unknown, a file cannot be read, a value is invalid, or an override is of
            something else.
    """
    for override in overrides:
        if not _OF_A_SCENARIO.match(override):
            raise ConfigError(
                f"override {override!r} is not of a scenario: it must begin with 'scenario.', as in "
                "'scenario.duration_s=0.1'"
            )
    from hydra.errors import HydraException

    try:
        return scenario_from_dict(composed("evaluate", [f"scenario={name}", *overrides])["scenario"])
    except HydraException as error:
        reason = "; ".join(line.strip().rstrip(".") for line in str(error).splitlines() if line.strip())
        raise ConfigError(f"{' '.join((f'scenario={name}', *overrides))}: {reason}") from None
