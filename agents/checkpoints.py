# SPDX-License-Identifier: BSD-3-Clause
"""The folder of a run's checkpoints, for any kind of checkpoint."""

from pathlib import Path

from ncc.core.errors import ResultError


class Checkpoints:
    """Files or folders in a run's `checkpoints`, whose names sort by the number of epochs learnt from.

    Args:
        folder: folder of the run.
        keep: number of checkpoints to keep, the newest.
        pattern: glob pattern of their names.
    """

    def __init__(self, folder: Path, keep: int, pattern: str) -> None:
        self._folder, self._keep, self._pattern = folder / "checkpoints", keep, pattern

    def newest(self) -> Path | None:
        """The last checkpoint, or None."""
        return max(self._folder.glob(self._pattern), default=None)

    def must_be_empty(self) -> None:
        """Raise `ResultError` if there are checkpoints, so that two runs are not mixed."""
        found = self.newest()
        if found is not None:
            raise ResultError(f"{found} belongs to an earlier training; resume that run or choose another folder")

    def must_exist(self) -> Path:
        """The last checkpoint.

        Raises:
            ResultError: there is none.
        """
        path = self.newest()
        if path is None:
            raise ResultError(f"{self._folder} holds no checkpoint to resume from; train without resume first")
        return path

    def surplus(self) -> list[Path]:
        """The oldest checkpoints beyond those that are kept."""
        return sorted(self._folder.glob(self._pattern))[: -self._keep]


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
