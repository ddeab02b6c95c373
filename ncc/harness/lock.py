# SPDX-License-Identifier: BSD-3-Clause
"""A lock that gives one process the right to write a folder, released however the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ncc.core.errors import ResultError


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[int]:
    """Hold the folder against a second writer; a missing folder is made.

    If the body raises, folders made here that are still empty are removed.

    It gives the lock's descriptor: a process that inherits it holds the folder too, until both have ended.

    Args:
        folder: folder to lock; files in it are not locked themselves.
        what: kind of the holder, for the error: `evaluation`, `training`.

    Raises:
        ResultError: another process, or another caller in this one, holds the lock, or the folder cannot be used.
    """
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    handle = _opened(folder)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ResultError(f"another {what} is writing to {folder}; wait for it or choose another folder") from None
        if not folder.is_dir() or not os.path.samestat(os.fstat(handle), folder.stat()):
            # The former holder removed the folder between our opening and our locking.
            raise ResultError(f"another {what} has just taken {folder} away; run the command again")
        yield handle
    except BaseException:
        with suppress(OSError):  # the first non-empty folder and all above it stay
            for made in missing:
                made.rmdir()
        raise
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ResultError(f"cannot use {folder}: {error.strerror}; choose a folder that can be written") from None
