# SPDX-License-Identifier: BSD-3-Clause
"""The checkpoints of a run, in files or folders that are complete or absent."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ncc.core.errors import ResultError
from ncc.harness.atomic import remove, sync_folder


class Checkpoints:
    """Files or folders in a run's `checkpoints`, named by the number of periods learnt from.

    Args:
        folder: folder of the run.
        keep: number of checkpoints to keep, the newest.
        suffix: end of their names.
    """

    def __init__(self, folder: Path, keep: int, suffix: str = "") -> None:
        self._folder, self._keep, self._suffix = folder / "checkpoints", keep, suffix

    def add(self, epochs: int, write: Callable[[Path], None]) -> Path:
        """Let `write` make a checkpoint, then delete the oldest beyond `keep`; earlier ones survive its errors."""
        path = self._folder / f"checkpoint-{epochs:015d}{self._suffix}"
        write(path)
        for old in self._all()[: -self._keep]:
            if old.is_dir():
                shutil.rmtree(old)
            else:
                remove(old)
        return path

    def must_be_empty(self) -> None:
        """Raise `ResultError` if there are checkpoints, so that two runs are not mixed."""
        if known := self._all():
            raise ResultError(f"{known[-1]} belongs to an earlier training; resume that run or choose another folder")

    def newest(self) -> Path:
        """The last checkpoint.

        Raises:
            ResultError: there is none.
        """
        if not (checkpoints := self._all()):
            raise ResultError(f"{self._folder} holds no checkpoint to resume from; train without resume first")
        return checkpoints[-1]

    def _all(self) -> list[Path]:
        """All checkpoints, the newest last."""
        return sorted(self._folder.glob(f"checkpoint-*{self._suffix}"))


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; on success it is flushed to disk and replaces `path`, else it is removed.

    Raises:
        ResultError: the file system refused.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as opened:
                    os.fsync(opened.fileno())
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise ResultError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder, then resume"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_made_with(path: Path, *pairs: tuple[str, object, object]) -> None:
    """Raise `ResultError` unless each (name, found, asked) pair matches; `path` names the checkpoint."""
    for what, found, asked in pairs:
        if found != asked:
            raise ResultError(f"{path} was made with {what} {found}, not {asked}; resume with {what}={found}")


def check_networks(found: object, asked: object) -> None:
    """Raise `ResultError` if a checkpoint's networks do not fit the environment and the configuration."""
    if found != asked:
        raise ResultError(
            f"the checkpoint holds networks of shape {found} (obs_dim-hidden-n_actions), but the environment and "
            f"agent.hidden ask for {asked}; resume with the configuration that made it"
        )
