# SPDX-License-Identifier: BSD-3-Clause
"""Temporary files of the tests, which lie in the checkout: the machine's own folder for them may be small or full."""

import atexit
import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def stay_in(folder: Path) -> None:
    """Make `folder` the temporary folder of this process and of those that it starts.

    They know it by a short link, because a socket's path has at most 107 characters. It is gone when this process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    link = _link(folder)
    atexit.register(_remove, link, os.getpid())
    os.environ["TMPDIR"] = tempfile.tempdir = str(link)


def _link(to: Path) -> Path:
    """A link, in /tmp if it can be: paths there are short enough for Ray, and a full folder has room for a link."""
    for folder in (Path("/tmp"), Path(tempfile.gettempdir()).absolute()):
        for _ in range(100):
            with contextlib.suppress(OSError):
                (link := folder / f"t{secrets.token_hex(2)}").symlink_to(to, target_is_directory=True)
                return link
    raise OSError(f"no link can be made in {folder}")


def _remove(link: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # and not a process forked from it
        link.unlink(missing_ok=True)
