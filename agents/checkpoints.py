# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a training: policy files, and checkpoints, each of which is either complete or absent."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ncc.agents.policy import Layer, save_policy
from ncc.core.errors import ResultError
from ncc.harness.atomic import remove, sync_folder

POLICIES = "policies"
"""Folder, within a run, of the checkpoints' policy files. Their names are the numbers of periods learnt from."""


def checkpoint_policies(run: Path) -> dict[int, Path]:
    """Policy files of the checkpoints in a run folder, by the number of periods learnt from, ascending."""
    return {int(path.stem): path for path in sorted((run / POLICIES).glob("*.ncc"))}


class Checkpoints:
    """The checkpoints and policy files of a run.

    Args:
        folder: folder of the run.
        keep: number of checkpoints to keep; older ones are deleted.
        made_by: learner, seed and other values in which a run must equal the checkpoint that it resumes from.
        meta: plain data for the policy files.
    """

    def __init__(self, folder: Path, keep: int, made_by: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        self._run, self._folder, self._keep, self._meta = folder, folder / "checkpoints", keep, meta
        self.made_by = made_by

    def begin(self, *, resume: bool) -> Path | None:
        """Return the newest checkpoint if `resume` is set, and None if a new training begins.

        Raises:
            ResultError: there is no checkpoint to resume from, or a new training finds those of an earlier one.
        """
        known = self._all()
        if resume and not known:
            raise ResultError(f"{self._folder} holds no checkpoint to resume from; train without resume first")
        if known and not resume:
            raise ResultError(f"{known[-1]} belongs to an earlier training; resume that run or choose another folder")
        return known[-1] if known else None

    def add(self, epochs: int, layers: Sequence[Layer], write: Callable[[Path], None]) -> Path:
        """Let `write` make a checkpoint after `epochs` periods, and write its policy file; return the former's path.

        All checkpoints but the newest `keep` are deleted; policy files stay. If `write` fails, earlier ones stay.
        """
        path = self._folder / f"checkpoint-{epochs:015d}"
        write(path)
        self.save_policy(f"{POLICIES}/{epochs:015d}.ncc", layers, epochs)
        for old in self._all()[: -self._keep]:
            if old.is_dir():
                shutil.rmtree(old)
            else:
                remove(old)
        return path

    def save_policy(self, name: str, layers: Sequence[Layer], epochs: int) -> Path:
        """Write a policy file that records `made_by` and the number of periods learnt from; return its path."""
        path = self._run / name
        save_policy(path, layers, {**self._meta, "training": {**self.made_by, "epochs": epochs}})
        return path

    def _all(self) -> list[Path]:
        """Return all checkpoints, the newest last."""
        return sorted(self._folder.glob("checkpoint-*"))


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


def damaged(path: Path, error: Exception) -> ResultError:
    """Make the error for a checkpoint that cannot be read."""
    return ResultError(f"the checkpoint {path} is damaged ({error}); delete it to resume from the one before")


def check_same(where: object, found: object, asked: object) -> None:
    """Raise `ResultError` unless the values `found` in the checkpoint `where` equal `asked`."""
    if found != asked:
        raise ResultError(f"{where} was made with {found}, not {asked}; resume with the configuration that made it")
