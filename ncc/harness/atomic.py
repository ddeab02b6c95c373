# SPDX-License-Identifier: BSD-3-Clause
"""Atomic file writes, and the lock of a folder.

A file is written under a temporary name, flushed to disk, then renamed.
"""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ncc.core.errors import ResultError

_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. On success it replaces `path` in one step; on failure `path` is untouched.

    The temporary file is in the folder of `path`, because a rename is atomic within one file system only. Its name
    starts with a dot.

    Raises:
        ResultError: the file system refuses, or `path` is no regular file (renaming would remove a device, for one).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ResultError(_explain(path, error)) from error


def check_replaceable(path: Path) -> None:
    """Raise `ResultError` if `path` exists and is neither a regular file nor a link to one."""
    try:
        other = path.exists() and not path.is_file()
    except OSError as error:
        raise ResultError(_explain(path, error)) from error
    if other:
        raise ResultError(f"cannot write {path}: what has that name is no regular file; choose another name")


def require_writable(path: Path) -> None:
    """Raise `ResultError` if the file cannot be written; call this before hours of work."""
    check_replaceable(path)
    if not os.access(path.parent, os.W_OK):
        raise ResultError(f"cannot write {path}: {path.parent} is no folder that can be written; choose another name")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file atomically; errors as in `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write a small UTF-8 file atomically; errors as in `replacing`."""
    write_bytes(path, text.encode())


def remove(path: Path) -> None:
    """Remove a file so that it stays removed after a crash; a missing file is no error."""
    if path.exists():
        path.unlink()
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _explain(path: Path, error: OSError) -> str:
    if error.errno not in _OUT_OF_SPACE:
        return f"cannot write {path}: {error.strerror or error}; choose a folder that can be written"
    free = shutil.disk_usage(path.parent).free if path.parent.exists() else 0
    return (
        f"cannot write {path}: {error.strerror} ({free / 1e6:.1f} MB free there); nothing half-written was kept, "
        "free some space or choose another folder and run the command again"
    )


@contextmanager
def exclusive(folder: Path, what: str) -> Iterator[int]:
    """Lock the folder against a second writer; create it if it is missing.

    The context yields the lock's file descriptor. A process that inherits it holds the lock too, until both have ended.
    If an error leaves the context, the folders that this call created are removed, unless they contain something.

    Args:
        folder: folder to lock; files in it are not locked themselves.
        what: kind of work that locks the folder, for the error: `evaluation`, `training`.

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
        with suppress(OSError):  # the first folder that is not empty stays, and so do those above it
            for created in missing:
                created.rmdir()
        raise
    finally:
        os.close(handle)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ResultError(f"cannot use {folder}: {error.strerror}; choose a folder that can be written") from None
