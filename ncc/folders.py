# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a training: claimed, given back after a mistake, resumed after an interruption."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ncc.core.errors import ConfigError, WorkerDiedError
from ncc.learning import read_learning


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make the run folder, which must be new or empty.

    After a `ConfigError` before the first checkpoint it is so again: the corrected command may name the same folder.
    """
    existed = folder.exists()
    _claim(folder)
    try:
        yield
    except ConfigError:
        if not begun(folder):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            if not existed:
                folder.rmdir()
        raise


def _claim(folder: Path) -> None:
    """Make the run folder; it must be new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            f"out={folder} cannot be used ({error.strerror}); choose a folder that can be written"
        ) from None
    if taken:
        raise ConfigError(f"out={folder} is not empty; choose another folder, or continue it with resume={folder}")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"out={folder} cannot be written; choose another folder")


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say of an interruption how to go on."""
    try:
        yield
    except WorkerDiedError as error:
        raise WorkerDiedError(f"{error}. Continue with: python -m ncc.train resume={folder}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. Continue with: python -m ncc.train resume={folder}") from None


def begun(folder: Path) -> bool:
    """Whether there is something to resume from, or there should be; an interruption may have come before.

    A hidden file is none: what a process left that was killed while it wrote its first checkpoint.
    """
    return bool(read_learning(folder)) or any((folder / "checkpoints").glob("[!.]*"))
