# SPDX-License-Identifier: BSD-3-Clause
"""Several networks, one process each: `Networks` of simulators that cannot step many at once.

A pipe per worker carries limits one way and the measurement the other. A closed pipe shows either side that the other
has died. No process is left behind, however one ends.
"""

import multiprocessing
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from ncc.core.errors import ConfigError, DatapathError, NccError, WorkerDiedError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.harness.datapath import Datapath, HostStack
from ncc.harness.processes import PackedError, end, killed_by, main_left_alone, pack_error, quiet_start, unpack_error

_JOIN_S = 10.0
"""Seconds that a worker gets to finish its last epoch before it is terminated."""


@dataclass(frozen=True)
class InProcesses:
    """A datapath whose networks run in a spawned process each: `ncc.harness.networks.Batching` for any datapath."""

    datapath: Callable[[], Datapath]
    """Function that makes a network in the worker; picklable."""

    def __call__(self) -> Datapath:
        return self.datapath()

    def batch(self, n: int, *, threads: int, first: int) -> "WorkerNetworks":
        """Start `n` networks in as many processes; more than there are cores gains nothing."""
        return WorkerNetworks(self.datapath, n, first=first)


class WorkerNetworks:
    """`ncc.harness.networks.Networks`, each in its own spawned process.

    They give bit for bit the results of networks in this process. The processes start with the first network. They
    import the main module only if the datapath is defined there; a script then needs ``if __name__ == "__main__":``.

    Args:
        datapath: function that makes a network in the worker; picklable.
        n: number of networks.
        first: number of the first in errors, ``rack <first>``.

    Raises:
        ConfigError: the datapath cannot be pickled.
        WorkerDiedError: in `start` and `step`; all workers are then stopped.
    """

    def __init__(self, datapath: Callable[[], Datapath], n: int, *, first: int = 0) -> None:
        try:
            self._needs_main = b"_main__" in pickle.dumps(datapath)  # the name of __main__ in spawned processes
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"the datapath factory cannot be sent to a worker ({error}); use a class or a function of a module"
            ) from None
        self._datapath, self._n, self._first = datapath, n, first
        self._workers: list[tuple[SpawnProcess, Connection]] = []
        self._started: set[int] = set()

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """See `ncc.harness.networks.Networks.start`."""
        if not self._workers:
            self._spawn()
        (measurement,) = self._exchange({row: (scenario, flows, stack, seed)}, named=False)
        self._started.add(row)
        return measurement

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        """See `ncc.harness.networks.Networks.step`; on any failure all workers are stopped."""
        if len(self._started) < self._n:
            raise DatapathError(f"{len(self._started)} of {self._n} networks are running; start each of them first")
        measured = self._exchange(dict(enumerate(rate_limits_bps)), named=self._n > 1)
        return measured[0] if self._n == 1 else Measurements.of(measured)

    def close(self) -> None:
        """Stop the workers; may be called twice, and networks may be started again."""
        workers, self._workers, self._started = self._workers, [], set()
        for _, pipe in workers:
            pipe.close()  # a worker ends when its pipe is closed
        end([process for process, _ in workers if process.pid is not None], _JOIN_S)

    def _spawn(self) -> None:
        context = multiprocessing.get_context("spawn")
        try:
            with quiet_start(), nullcontext() if self._needs_main else main_left_alone():
                for _ in range(self._n):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(theirs, self._datapath), daemon=True)
                    self._workers.append((process, ours))
                    process.start()
                    theirs.close()
        except BaseException:
            self.close()
            raise

    def _exchange(self, requests: dict[int, Any], *, named: bool) -> list[Measurement]:
        """Send requests to some workers and receive their answers; on any failure stop them all."""
        try:
            for row, request in requests.items():
                try:
                    self._workers[row][1].send(request)
                except ConnectionError:
                    raise self._death(row) from None
            return [self._receive(row, named=named) for row in requests]
        except BaseException:  # also on Ctrl-C: some workers would be an epoch ahead
            self.close()
            raise

    def _receive(self, row: int, *, named: bool) -> Measurement:
        try:
            answer = self._workers[row][1].recv()
        except (EOFError, ConnectionError):
            raise self._death(row) from None
        if isinstance(answer, PackedError):
            raise unpack_error(answer, f"rack {self._first + row}" if named else "")
        found: Measurement = answer
        return found

    def _death(self, row: int) -> WorkerDiedError:
        process = self._workers[row][0]
        if name := killed_by(process):
            how = f"signal {name}"
        elif process.exitcode is None:
            how = "it closed its pipe and did not exit"
        else:
            how = f"exit status {process.exitcode}"
        others = " and the others were stopped" if self._n > 1 else ""
        return WorkerDiedError(
            f"the worker of rack {self._first + row} died ({how}){others}; its last words, if any, "
            "are on standard error; start again, or resume from a checkpoint"
        )


def _work(pipe: Connection, datapath: Callable[[], Datapath]) -> None:
    """Run a worker: execute the parent's requests until the pipe closes."""
    network: Datapath | None = None
    try:
        while True:
            request = pipe.recv()
            try:
                network = network or datapath()
                answer: Any = network.start(*request) if isinstance(request, tuple) else network.step(request)
            except NccError as error:
                answer = pack_error(error)
            pipe.send(answer)
    except (EOFError, ConnectionError):
        return  # the parent has closed its end or exited
    finally:
        if network is not None:
            network.close()
