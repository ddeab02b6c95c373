# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.harness.guarded <pid> <module> [argument] ...``: run a module that ends when its parent <pid> does.

The module is interrupted (SIGINT) when its parent dies for any reason. It receives interrupts even if its parent has
them blocked.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Option of prctl (linux/prctl.h); the setting survives exec."""


def main() -> None:
    """Replace this process by one that runs the module."""
    parent, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) is refused")
    if os.getppid() != int(parent):  # the parent died before the setting
        raise SystemExit(128 + signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.execv(sys.executable, [sys.executable, "-m", *command])


if __name__ == "__main__":
    main()
