# SPDX-License-Identifier: BSD-3-Clause
"""Datapaths that go wrong in their own ways, for workers."""

import signal
import sys
from typing import Any

from ncc.core.errors import DatapathError
from ncc.core.measurement import Measurement
from tests.support.mm1 import Mm1Datapath

HEAVY = ("torch", "ray", "gymnasium", "pettingzoo", "hydra", "scipy", "pyarrow", "matplotlib")


class Light(Mm1Datapath):
    """Refuses a process that has loaded what only learners and mains need."""

    def start(self, *args: Any) -> Measurement:
        loaded = [name for name in HEAVY if name in sys.modules]
        if loaded:
            raise DatapathError(f"the worker has loaded {', '.join(loaded)}")
        return super().start(*args)


class SignalMask(Mm1Datapath):
    """Refuses a process that Ctrl-C would interrupt."""

    def start(self, *args: Any) -> Measurement:
        if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set()):
            raise DatapathError("SIGINT is not blocked in the worker")
        return super().start(*args)
