# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a training: locked while in use, removed after a wrong command, resumed after an interruption."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from ncc.core.errors import ConfigError, DatapathError, WorkerDiedError
from ncc.harness.atomic import exclusive
from ncc.harness.manifest import is_sealed
from ncc.run.learning import read_learning

TRAINING = "training"


@contextmanager
def new_folder(within: Path, name: str) -> Iterator[Path]:
    """Create the folder `name` in `within`, and remove it at the end if it is still empty.

    If the name is taken, it gets a number. Two processes never get the same folder.
    """
    created = [path for path in (within, *within.parents) if not path.exists()]
    _make(within)
    for folder in chain([within / name], (within / f"{name}_{i}" for i in count(1))):
        with suppress(FileExistsError):
            folder.mkdir()
            break
    try:
        yield folder
    finally:
        with suppress(OSError):  # the folder is not empty, or another training is in one of its parents
            for path in (folder, *created):
                path.rmdir()


@contextmanager
def training_in(folder: Path, *, resume: bool) -> Iterator[None]:
    """Lock the run folder of a training while it is written; the folder of a new one must be missing or empty.

    After a `ConfigError` before the first checkpoint, or a `DatapathError` before anything was learnt, a new folder is
    removed or emptied again, so that the corrected command may name the same folder.

    Raises:
        ConfigError: the folder of a new training is not empty or cannot be used.
        ResultError: another training writes to the folder.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    if not resume:
        _make(folder)
    with _resumable(folder), exclusive(folder, TRAINING):
        if not resume and any(folder.iterdir()):
            raise ConfigError(f"out={folder} is not empty; choose another folder, or continue it with resume={folder}")
        try:
            yield
        except (ConfigError, DatapathError) as error:
            # A failed simulation may come after the checkpoint of the untrained policy, which is worth nothing.
            if not (resume or (begun(folder) if isinstance(error, ConfigError) else read_learning(folder))):
                for path in folder.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                with suppress(OSError):  # another training may be in one of the parents
                    for path in created:
                        path.rmdir()
            raise


def _make(folder: Path) -> None:
    """Make the run folder if it does not exist, and check that it is usable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        next(folder.iterdir(), None)
    except OSError as error:
        raise ConfigError(
            f"out={folder} cannot be used ({error.strerror}); choose a folder that can be written"
        ) from None
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"out={folder} cannot be written; choose another folder")


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Add to the error of an interruption the command that resumes the training."""
    try:
        yield
    except WorkerDiedError as error:
        raise WorkerDiedError(f"{error}. Continue with: ncc train resume={folder}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted. Continue with: ncc train resume={folder}") from None


def finished(folder: Path, remedy: str) -> bool:
    """Return True, and print a line that ends in `remedy`, if the training in a folder is finished."""
    if sealed := is_sealed(folder):
        print(f"{folder} is finished; {remedy}")
    return sealed


def begun(folder: Path) -> bool:
    """True if a training in the folder has begun: it has rows in its learning log, or a checkpoint.

    Hidden files do not count: they remain from a process killed while it wrote its first checkpoint.
    """
    return bool(read_learning(folder)) or any((folder / "checkpoints").glob("[!.]*"))


def files_of(folder: Path) -> list[str]:
    """Files of a training, relative to its folder, without hidden ones."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if not path.name.startswith(".")]
