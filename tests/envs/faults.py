# SPDX-License-Identifier: BSD-3-Clause
"""Datapaths that go wrong in their own ways, for workers."""

import os
import signal
import sys
from abc import ABC, abstractmethod
from typing import Any

from ncc.core.errors import DatapathError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from tests.support.mm1 import Mm1Datapath

HEAVY = ("torch", "ray", "gymnasium", "pettingzoo", "hydra", "scipy", "pyarrow", "matplotlib")


class Faulty(Mm1Datapath, ABC):
    """Goes wrong in the third epoch."""

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        measurement = super().step(rate_limits_bps)
        if measurement.epoch == 3:
            self.fail()
        return measurement

    @abstractmethod
    def fail(self) -> None:
        """Faults in the third epoch."""


class Aborting(Faulty):
    """As ns-3 does on a failed assertion."""

    def fail(self) -> None:
        os.abort()


class Exiting(Faulty):
    def fail(self) -> None:
        sys.stderr.flush()
        os._exit(7)


class Failing(Faulty):
    def fail(self) -> None:
        raise DatapathError("the network caught fire")


class Refusing(Mm1Datapath):
    def start(self, *args: Any) -> Measurement:
        raise UnknownNameError("transport", "dctpc", ["dctcp"])


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
