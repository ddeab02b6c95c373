# SPDX-License-Identifier: BSD-3-Clause
"""Several simulated networks stepped together, in this process or in others, as the datapath allows."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import current_process
from multiprocessing.connection import Connection
from typing import Any, Protocol, runtime_checkable

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.harness.datapath import Datapath, HostStack, retag
from ncc.harness.workers import EXIT_S, Workers

DatapathFactory = Callable[[], Datapath]
"""Function that makes a datapath in the process that steps it, such as a class; picklable if workers are used."""


class Networks:
    """Networks that are stepped together and started one by one. They have equal shapes, and each has its own flows.

    This class steps them one after the other in the calling thread; derived classes use other threads or processes. A
    network gives bit for bit the results of a single `Datapath`. Errors are those of `Datapath`. With several networks,
    an error begins with the name of its network (``rack 3: ...``), and then all networks must be started again.

    Args:
        datapath: function that makes a network.
        n: number of networks.
        first: number of the first network in errors (``rack <first>``).
    """

    def __init__(self, datapath: DatapathFactory, n: int, *, first: int = 0) -> None:
        self._make, self._n, self._first = datapath, n, first
        self._datapaths: list[Datapath] = []

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Start network number `row` at time 0, which ends its earlier run; the others are not changed."""
        while len(self._datapaths) < self._n:
            self._datapaths.append(self._make())
        return self._datapaths[row].start(scenario, flows, stack, seed)

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        """Apply limits [n_networks, n_agents] and run one period of each network.

        Returns:
            `Measurements` of all networks; for a single network, its `Measurement`.
        """
        if not self._datapaths:
            raise DatapathError("no network is running; start each of them first")
        if self._n == 1:
            return self._datapaths[0].step(rate_limits_bps[0])
        measured: list[Measurement] = []
        try:
            for datapath, limits in zip(self._datapaths, rate_limits_bps, strict=True):
                measured.append(datapath.step(limits))
        except NccError as error:
            raise error.within(f"rack {self._first + len(measured)}") from error
        return Measurements.of(measured)

    def retag(self, row: int, tag_params: Sequence[int]) -> None:
        """Give the tags of one network's hosts new parameters; see `ncc.harness.datapath.retag`."""
        if row >= len(self._datapaths):
            raise DatapathError("no network is running; start each of them first")
        retag(self._datapaths[row], tag_params)

    def close(self) -> None:
        """Free everything; may be called twice, and networks may be started again."""
        datapaths, self._datapaths = self._datapaths, []
        for datapath in datapaths:
            datapath.close()


@runtime_checkable
class Batching(Protocol):
    """A datapath class that can step many networks in one call."""

    def batch(self, n: int, *, threads: int, first: int) -> Networks:
        """Make `n` networks on `threads` threads; errors call them ``rack first``, ``rack first + 1``, ...

        The results do not depend on `threads`.
        """
        ...


@runtime_checkable
class OnePerProcess(Protocol):
    """A datapath class that allows one run at a time in a process."""

    def taken(self) -> bool:
        """True if this process has a run now."""
        ...


@dataclass(frozen=True)
class NewTags:
    """A request to a worker: new parameters of its hosts' tags."""

    params: Sequence[int]


class WorkerNetworks(Networks):
    """Networks, each in its own spawned process, for simulators that cannot step many at once.

    They give bit for bit the results of networks in this process. The first call of `start` starts all processes. They
    import the main module only if the datapath is defined there; a script then needs ``if __name__ == "__main__":``.

    Raises:
        ConfigError: the datapath cannot be pickled.
        WorkerDiedError: in `start` and `step`; all workers are then stopped.
    """

    def __init__(self, datapath: DatapathFactory, n: int, *, first: int = 0) -> None:
        try:
            self._needs_main = b"_main__" in pickle.dumps(datapath)  # also __mp_main__, its name in spawned processes
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"the datapath factory cannot be sent to a worker ({error}); use a class or a function of a module"
            ) from None
        super().__init__(datapath, n, first=first)
        self._workers: Workers | None = None
        self._started: set[int] = set()

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        if self._workers is None:
            stopped = "the others were stopped; " if self._n > 1 else ""
            self._workers = Workers(
                _serve,
                [(self._make,)] * self._n,
                [""] * self._n,
                remedy=f"{stopped}start again, or resume from a checkpoint",
                main=self._needs_main,
            )
        (measurement,) = self._exchange(self._workers, {row: (scenario, flows, stack, seed)}, named=False)
        self._started.add(row)
        return measurement

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        if self._workers is None or len(self._started) < self._n:
            raise DatapathError(f"{len(self._started)} of {self._n} networks are running; start each of them first")
        measured = self._exchange(self._workers, dict(enumerate(rate_limits_bps)), named=self._n > 1)
        return measured[0] if self._n == 1 else Measurements.of(measured)

    def retag(self, row: int, tag_params: Sequence[int]) -> None:
        if self._workers is None or row not in self._started:
            raise DatapathError("no network is running; start each of them first")
        self._exchange(self._workers, {row: NewTags(tag_params)}, named=self._n > 1)

    def close(self) -> None:
        workers, self._workers, self._started = self._workers, None, set()
        if workers is not None:
            workers.close(EXIT_S)  # enough to finish the last epoch

    def _exchange(self, workers: Workers, requests: dict[int, Any], *, named: bool) -> list[Measurement]:
        """Send requests to some workers and receive their answers; on any failure stop them all."""
        row = 0
        try:
            for row, request in requests.items():
                workers.send(row, request)
            answers = []
            for row in requests:
                answers.append(workers.receive(row))
        except NccError as error:
            self.close()
            raise error.within(f"rack {self._first + row}" if named else "") from None
        except BaseException:  # also on Ctrl-C: some workers would be an epoch ahead
            self.close()
            raise
        return answers


def _serve(pipe: "Connection[Any, Any]", datapath: DatapathFactory) -> None:
    """Run a worker: execute the parent's requests until the pipe closes."""
    network: Datapath | None = None
    try:
        while True:
            request = pipe.recv()
            network = network or datapath()
            match request:
                case NewTags():
                    retag(network, request.params)
                    pipe.send(None)
                case tuple():
                    pipe.send(network.start(*request))
                case _:
                    pipe.send(network.step(request))
    finally:
        if network is not None:
            network.close()


@dataclass(frozen=True)
class InProcesses:
    """A wrapper that gives any datapath `Batching`: each network runs in a spawned process of its own."""

    datapath: DatapathFactory
    """Function that makes a network in the worker; picklable."""

    def __call__(self) -> Datapath:
        return self.datapath()

    def batch(self, n: int, *, threads: int, first: int) -> WorkerNetworks:
        """Make `n` networks in as many processes, whatever `threads` is; more than there are cores gain nothing."""
        return WorkerNetworks(self.datapath, n, first=first)


class WhereFree(Networks):
    """A single network of a datapath that allows one run at a time in a process (`OnePerProcess`).

    It runs in this process if this process has no run when the network is first started, else in a process of its own.
    In a daemon, which may not start processes, it always runs in this process.
    """

    def __init__(self, datapath: DatapathFactory, taken: Callable[[], bool], *, first: int = 0) -> None:
        super().__init__(datapath, 1, first=first)
        self._taken = taken
        self._network: Networks | None = None

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        if self._network is None:
            elsewhere = self._taken() and not current_process().daemon  # daemons may not start processes
            place = WorkerNetworks if elsewhere else Networks
            self._network = place(self._make, 1, first=self._first)
        return self._network.start(row, scenario, flows, stack, seed)

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        if self._network is None:
            raise DatapathError("no network is running; start it first")
        return self._network.step(rate_limits_bps)

    def retag(self, row: int, tag_params: Sequence[int]) -> None:
        if self._network is None:
            raise DatapathError("no network is running; start it first")
        self._network.retag(row, tag_params)

    def close(self) -> None:
        network, self._network = self._network, None
        if network is not None:
            network.close()


def side_by_side(datapath: DatapathFactory) -> DatapathFactory:
    """Return the datapath if it offers `Batching`, else a wrapper that runs each network in its own process."""
    offered: object = datapath
    return datapath if isinstance(offered, Batching) else InProcesses(datapath)


def networks(datapath: DatapathFactory, n: int, *, threads: int = 1, first: int = 0) -> Networks:
    """Make `n` networks, stepped in the way that suits the datapath.

    Several networks are stepped in one call if the datapath offers `Batching`, or in a process each if it is
    `OnePerProcess`; otherwise one after the other in this process.
    """
    offered: object = datapath
    if n > 1 and isinstance(offered, Batching):
        return offered.batch(n, threads=threads, first=first)
    if isinstance(offered, OnePerProcess):
        alone = n == 1
        return WhereFree(datapath, offered.taken, first=first) if alone else WorkerNetworks(datapath, n, first=first)
    return Networks(datapath, n, first=first)
