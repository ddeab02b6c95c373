# SPDX-License-Identifier: BSD-3-Clause
"""Parts that the mains of studies share: composed configurations, Ctrl-C and exit statuses."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from ncc.compose import plain_config, register
from ncc.core.errors import ConfigError, NccError
from ncc.plan import TrainPlan, planned


def compose_config(verb: str, overrides: Iterable[str]) -> Any:
    """The configuration of a command line of `ncc <verb>`, inside a main that Hydra composed and outside of one."""
    from hydra import compose, initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    if GlobalHydra.instance().is_initialized():
        return compose(verb, list(overrides))
    register()
    with initialize_config_module("ncc.configs", version_base=None):
        return compose(verb, list(overrides))


def training_plan(overrides: Iterable[str]) -> TrainPlan:
    """The training that a command line of `ncc train` asks for."""
    return TrainPlan.from_plain(planned(plain_config(compose_config("train", overrides))))


def key_of(override: str) -> str:
    """The key that an override sets."""
    return override.partition("=")[0].lstrip("+~")


@contextmanager
def resumable(what: str) -> Iterator[None]:
    """Say on Ctrl-C that `what` is kept, and that the same command goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. {what} are kept; the same command goes on from there.") from None


def exit_status(body: Callable[[Console], int]) -> int:
    """The status that a main without Hydra ends with: what `body` returns, 2 for settings that cannot be used, or 1."""
    console = Console()
    try:
        return body(console)
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt as interrupt:
        console.print(str(interrupt) or "interrupted")
        return 130
