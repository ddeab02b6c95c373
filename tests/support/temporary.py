# SPDX-License-Identifier: BSD-3-Clause
"""Temporary files of the tests, which lie in the checkout: the machine's own folder for them may be small or full."""

import atexit
import os
import secrets
import tempfile
from pathlib import Path


def stay_in(folder: Path) -> None:
    """Make `folder` the temporary folder of this process and of those that it starts.

    They know it by a short link, because a socket's path has at most 107 characters. It is gone when this process ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    link = Path(tempfile.gettempdir(), f"t{secrets.token_hex(2)}")
    link.symlink_to(folder, target_is_directory=True)
    atexit.register(_remove, link, os.getpid())
    os.environ["TMPDIR"] = tempfile.tempdir = str(link)


def _remove(link: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # and not a process forked from it
        link.unlink(missing_ok=True)
