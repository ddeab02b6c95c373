# SPDX-License-Identifier: BSD-3-Clause
"""Where a notebook shows things and keeps its own runs, and how quickly it is meant to be through."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ncc.compose import plain_config, register
from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, scenario_from_dict

T = TypeVar("T")
_OF_A_SCENARIO = re.compile(r"[+~]*scenario[./]")
"""With Hydra's signs for adding and deleting; after the slash, a group such as scenario/topology."""
QUICK, RUNS = "NCC_QUICK", "NCC_RUNS"


class Picture:
    """A figure, shown by whatever shows notebooks."""

    def __init__(self, png: bytes) -> None:
        self.png = png

    def _repr_png_(self) -> bytes:
        return self.png


class Page:
    """Text in Markdown, likewise."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def shown(draw: Callable[..., None], *args: Any, **kwargs: Any) -> Picture:
    """What a function of `ncc.plot` draws from these arguments, its `path` apart."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "figure.png"
        draw(*args, path=path, **kwargs)
        return Picture(path.read_bytes())


def quick() -> bool:
    """Whether notebooks run as tests do."""
    said = os.environ.get(QUICK, "0")
    if said not in ("0", "1", ""):
        raise ConfigError(f"{QUICK} must be 1 (run in seconds) or 0 (as the notebooks are meant), got {said!r}")
    return said == "1"


def choose(*, quick: T, full: T) -> T:
    """One of two values: for tests, and for readers."""
    return quick if _quick() else full


_quick = quick  # whose name is that of an argument above


def own_folder(name: str, what: Any) -> Path:
    """Where a notebook keeps a run of its own: named after it and `what` it is, plain data."""
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return Path(os.environ.get(RUNS) or "runs") / "notebooks" / f"{name}_{digest}"


def scenario_of(name: str, *overrides: str) -> Scenario:
    """The scenario of configs/scenario/<name>.yaml, with overrides as on the command line (``scenario.period_s=1e-4``).

    Raises:
        ConfigError: no such scenario or key, a value that it cannot have, or an override of something else.
    """
    for override in overrides:
        if not _OF_A_SCENARIO.match(override):
            raise ConfigError(
                f"override {override!r} is not of a scenario: it must begin with 'scenario.', as in "
                "'scenario.duration_s=0.1'"
            )
    return scenario_from_dict(composed("evaluate", f"scenario={name}", *overrides)["scenario"])


def composed(main: str, *overrides: str) -> dict[str, Any]:
    """What the command line of a main would be composed to."""
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_module("ncc.configs", version_base=None):
            return plain_config(hydra.compose(main, list(overrides)))
    except HydraException as error:
        said = "; ".join(line.strip().rstrip(".") for line in str(error).splitlines() if line.strip())
        raise ConfigError(f"{' '.join(overrides)}: {said}") from None
