# SPDX-License-Identifier: BSD-3-Clause
"""Several networks stepped together, in this process or in others, as the datapath allows."""

from collections.abc import Callable
from multiprocessing import current_process
from typing import Protocol, runtime_checkable

from ncc.core.errors import DatapathError, NccError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.harness.datapath import Datapath, HostStack
from ncc.harness.processes import pack_error, unpack_error
from ncc.harness.workers import InProcesses, WorkerNetworks

DatapathFactory = Callable[[], Datapath]
"""Function that makes a datapath in the process that steps it, such as a class; picklable if workers are used."""


class Networks(Protocol):
    """Networks that are stepped together and started one by one: all of one shape, each with its own flows.

    Network `row` gives bit for bit the results of a single `Datapath`. Errors are those of `Datapath`; with several
    networks the error of one begins with its name (``rack 3: ...``), and all must be started again.
    """

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build that network at time 0, ending its earlier run; the others are not changed."""
        ...

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        """Apply limits [n_networks, n_agents] and run one period of each; a single network returns a `Measurement`."""
        ...

    def close(self) -> None:
        """Free everything; may be called twice, and networks may be started again."""
        ...


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


class InTurn:
    """`Networks` of any datapath, stepped one after the other in the calling thread."""

    def __init__(self, datapath: DatapathFactory, n: int, *, first: int = 0) -> None:
        self._make, self._n, self._first = datapath, n, first
        self._datapaths: list[Datapath] = []

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        while len(self._datapaths) < self._n:
            self._datapaths.append(self._make())
        return self._datapaths[row].start(scenario, flows, stack, seed)

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        if not self._datapaths:
            raise DatapathError("no network is running; start each of them first")
        if self._n == 1:
            return self._datapaths[0].step(rate_limits_bps[0])
        measured: list[Measurement] = []
        try:
            for datapath, limits in zip(self._datapaths, rate_limits_bps, strict=True):
                measured.append(datapath.step(limits))
        except NccError as error:
            raise unpack_error(pack_error(error), f"rack {self._first + len(measured)}") from error
        return Measurements.of(measured)

    def close(self) -> None:
        datapaths, self._datapaths = self._datapaths, []
        for datapath in datapaths:
            datapath.close()


class WhereFree:
    """A single network of an `OnePerProcess`: in this process if it is free, else in a process of its own."""

    def __init__(self, datapath: DatapathFactory, taken: Callable[[], bool], *, first: int = 0) -> None:
        self._datapath, self._taken, self._first = datapath, taken, first
        self._network: Networks | None = None

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        if self._network is None:
            elsewhere = self._taken() and not current_process().daemon  # daemons may not start processes
            place = WorkerNetworks if elsewhere else InTurn
            self._network = place(self._datapath, 1, first=self._first)
        return self._network.start(row, scenario, flows, stack, seed)

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        if self._network is None:
            raise DatapathError("no network is running; start it first")
        return self._network.step(rate_limits_bps)

    def close(self) -> None:
        network, self._network = self._network, None
        if network is not None:
            network.close()


def side_by_side(datapath: DatapathFactory) -> DatapathFactory:
    """Return the datapath if it offers `Batching`; else wrap it to run networks in processes."""
    offered: object = datapath
    return datapath if isinstance(offered, Batching) else InProcesses(datapath)


def networks(datapath: DatapathFactory, n: int, *, threads: int = 1, first: int = 0) -> Networks:
    """Make `n` networks: in a batch if the datapath offers that, in processes if each can hold only one, or in turn."""
    offered: object = datapath
    if n > 1 and isinstance(offered, Batching):
        return offered.batch(n, threads=threads, first=first)
    if isinstance(offered, OnePerProcess):
        alone = n == 1
        return WhereFree(datapath, offered.taken, first=first) if alone else WorkerNetworks(datapath, n, first=first)
    return InTurn(datapath, n, first=first)
