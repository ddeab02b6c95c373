# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.harness.guarded <pid> <module> [argument] ...``: run a module that ends when its parent <pid> does.

It is interrupted (SIGINT) when its parent dies, however that came about, and interrupts reach it even if its parent
has them blocked, as Ray's processes have.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""linux/prctl.h. The setting outlives exec."""


def main() -> None:
    """Become the module's process."""
    parent, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) is refused")
    if os.getppid() != int(parent):  # it died before it could be watched
        raise SystemExit(128 + signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.execv(sys.executable, [sys.executable, "-m", *command])


if __name__ == "__main__":
    main()
