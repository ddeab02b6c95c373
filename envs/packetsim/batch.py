# SPDX-License-Identifier: BSD-3-Clause
"""Networks of packetsim stepped in one call on several threads."""

from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.topology import Topology
from ncc.envs.native.base import NativeDatapath
from ncc.envs.native.blocks import Blocks
from ncc.envs.native.extension import Network
from ncc.harness.datapath import HostStack
from ncc.harness.limits import check_values
from ncc.harness.networks import Networks


class NativeBatch(Networks):
    """Networks of a native datapath whose extension has a class `Batch`.

    Networks share nothing, so the results depend neither on `threads` nor on `n`.
    """

    def __init__(self, datapath: type[NativeDatapath], n: int, *, threads: int, first: int) -> None:
        super().__init__(datapath, n, first=first)
        self._datapath, self._threads = datapath, threads
        self._batch: Any = None
        self._networks: dict[int, Network] = {}
        self._topology: Topology | None = None
        self._in_turn: Networks | None = None
        """Networks with receivers, stepped one after the other because a batch cannot measure receivers."""

    def start(self, row: int, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Start a network; see `ncc.harness.networks.Networks.start`.

        Raises:
            ConfigError: the network has another shape than the running ones, or for a reason that
                `NativeDatapath.start` lists; the other networks do not change.
            UnknownNameError: see `NativeDatapath.start`.
            DatapathError: see `NativeDatapath.start`.
        """
        if scenario.has_receivers:
            self._in_turn = self._in_turn or Networks(self._datapath, self._n, first=self._first)
            return self._in_turn.start(row, scenario, flows, stack, seed)
        spec = self._datapath.spec_of(scenario, flows, stack, seed)
        network, topology = self._datapath.network_of(scenario, spec), scenario.network()
        if self._batch is None:
            extension: Any = self._datapath.extension()
            self._batch = extension.Batch(self._n, self._threads)
        try:
            self._batch.put(row, network)
        except ValueError as error:
            raise ConfigError(f"Scenario {scenario.name!r} cannot run in this batch: {error}.") from None
        except RuntimeError as error:
            raise DatapathError(f"Cannot start: {error}.") from None
        self._networks[row], self._topology = network, topology
        blocks = Blocks(topology)
        network.measure(*blocks.arrays)
        return blocks.measurement()

    def step(self, rate_limits_bps: FloatArray) -> Measurements | Measurement:
        """Step all networks; see `ncc.harness.networks.Networks.step`.

        Raises:
            ConfigError: wrong shape, NaN, zero or negative limits, naming the host; no network has moved.
            DatapathError: a network has not been started, or a controller or connection failed while running.
        """
        if self._in_turn is not None:
            return self._in_turn.step(rate_limits_bps)
        if self._topology is None or len(self._networks) < self._n:
            raise DatapathError(f"{len(self._networks)} of {self._n} networks are running; start each of them first")
        limits = np.ascontiguousarray(rate_limits_bps, dtype=np.float64)
        shape = (self._n, len(self._topology.agent_hosts))
        if limits.shape != shape:
            raise ConfigError(
                f"rate_limits_bps must have shape {shape}, a row of agent hosts per network, got {limits.shape}"
            )
        check_values(limits, self._topology)
        blocks = Blocks(self._topology, self._n)
        try:
            failed = self._batch.step(limits, *blocks.arrays)
        except RuntimeError as error:
            raise DatapathError(f"Cannot step: {error}.") from None
        if failed:
            row, words = failed
            message = self._datapath.stopped(self._networks[row], RuntimeError(words))
            self.close()  # other networks may be an epoch ahead of it
            raise DatapathError(f"rack {self._first + row}: {message}")
        return blocks.measurements()

    def close(self) -> None:
        """Free all networks; they may be started again."""
        self._batch, self._networks, self._topology = None, {}, None
        if self._in_turn is not None:
            self._in_turn.close()
