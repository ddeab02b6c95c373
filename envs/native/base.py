# SPDX-License-Identifier: BSD-3-Clause
"""`NativeDatapath`: a simulator in an extension module behind the `Datapath` protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ncc.baselines.registry import ParamInfo, check_named, named, transport_params
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.extras import load_extension
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray, PortRecords
from ncc.core.measurement import Delivered, Measurement
from ncc.core.receivers import Edges, Grants, Queues
from ncc.core.scenario import Neighbourhoods, Scenario
from ncc.core.topology import Topology
from ncc.core.units import NS_PER_S
from ncc.envs.native.blocks import Blocks
from ncc.envs.native.extension import Extension, Network, Spec
from ncc.envs.native.program_checks import check_programs
from ncc.envs.native.spec import spec_of
from ncc.envs.native.transport_checks import check_transports
from ncc.harness.datapath import HostStack, Records
from ncc.harness.limits import checked_limits
from ncc.harness.messages import Messages


class NativeDatapath:
    """One simulation of an extension module; a subclass names the module and refuses what it does not offer."""

    name: str
    """Name for `datapath=`."""
    title: str
    """Name in error messages."""
    module: str
    """Full name of the extension module, which is loaded on first use."""
    extra: str | None = None
    """Extra of ncc with the libraries that the extension is linked with."""

    def __init__(self) -> None:
        self._network: Network | None = None
        self._topology: Topology | None = None
        self._neighbourhoods: Neighbourhoods = "uplink"
        self._messages: Messages | None = None
        self._measured: Measurement
        self._tags = "none"
        self._sizes_bytes: IntArray | None = None
        """Payload [n_flows] of all flows, if hosts have tags."""
        self._stepping = False

    @classmethod
    def extension(cls) -> Extension:
        """Load the extension module; errors are those of `ncc.core.extras.load_extension`."""
        return load_extension(cls.module, cls.extra)

    @classmethod
    def known(cls) -> Mapping[str, tuple[ParamInfo, ...]]:
        """Return the parameters of each transport, by name."""
        return transport_params()

    @classmethod
    def check(cls, scenario: Scenario) -> None:
        """Raise `ConfigError` if a scenario asks for something that this simulator does not offer."""
        check_programs(scenario)

    @classmethod
    def spec_of(cls, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Spec:
        """Describe a run for the extension; errors are those of `start`."""
        cls.check(scenario)
        check_transports(scenario, stack)
        return spec_of(cls.extension(), cls.title, scenario, flows, stack, transports=cls.known(), seed=seed)

    @classmethod
    def network_of(cls, scenario: Scenario, spec: Spec) -> Network:
        """Build the network of a spec at time 0; errors are those of `start`."""
        try:
            return cls.extension().Network(spec)
        except ValueError as error:
            raise ConfigError(f"Scenario {scenario.name!r} cannot run on {cls.title}: {error}.") from None
        except RuntimeError as error:
            raise DatapathError(f"Cannot start: {error}.") from None

    def transports(self) -> tuple[str, ...]:
        """List the controllers and message transports of `baselines/`, and the simulator's own if it has any."""
        self.extension()  # an error if it is not built
        return tuple(self.known())

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build the network at time 0; ends an earlier run of this object.

        Raises:
            UnknownNameError: no such transport, parameter or order; the message lists what exists.
            ConfigError: a parameter out of range, something that this simulator does not offer, a topology with too
                many routes, or flows that it cannot carry.
            DatapathError: no simulation can be started now.
        """
        spec = self.spec_of(scenario, flows, stack, seed)
        self.close()
        network, topology = self.network_of(scenario, spec), scenario.network()
        self._network, self._topology = network, topology
        self._neighbourhoods = scenario.neighbourhoods
        self._messages = Messages(scenario, seed) if stack.messages == "packets" else None
        self._sizes_bytes = flows.size_bytes if stack.tags != "none" else None
        self._tags = stack.tags
        return self._measure(network, topology)

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        """Apply limits [n_agents] (bits/s, > 0, inf for none) and run one period.

        Raises:
            ConfigError: wrong shape; NaN, zero or negative limits, naming the host; finite limits if
                `Scenario.neighbourhoods` is receivers.
            DatapathError: nothing is started, or a controller or connection failed while running.
        """
        network, topology = self._running("step")
        limits = checked_limits(rate_limits_bps, topology, self._neighbourhoods)
        self._stepping = True
        try:
            network.step(limits)
        except RuntimeError as error:
            raise DatapathError(self.stopped(network, error)) from None
        finally:
            self._stepping = False
        return self._measure(network, topology)

    def tell(self, grants: Grants) -> None:
        """Send receivers' grants at the next `step`; see `ncc.harness.datapath.tell`."""
        network, topology = self._running("tell")
        if self._neighbourhoods == "uplink":
            raise ConfigError("Grants need receivers: set Scenario.neighbourhoods to receivers or both")
        grants.check(topology)
        late_s = np.zeros(len(grants))
        if self._messages is not None:
            grants, late_s = self._messages.sent(grants, self._measured)
        if len(grants) == 0:
            return
        network.tell(
            np.ascontiguousarray(grants.src, np.int64),
            np.ascontiguousarray(grants.dst, np.int64),
            np.rint(np.asarray(grants.start_s) * NS_PER_S).astype(np.int64),
            np.ascontiguousarray(grants.rate_bps, np.float64),
            np.ascontiguousarray(grants.window_pkts, np.int64),
            np.rint(late_s * NS_PER_S).astype(np.int64),
        )

    def retag(self, tag_params: Sequence[int]) -> None:
        """Give the tags of all hosts new parameters at the next `step`; see `ncc.harness.datapath.retag`."""
        network, _ = self._running("retag")
        if self._tags == "none":
            raise ConfigError("Decision.tag_params need tags: set stack.tags, such as to pias")
        names = [param.name for param in named("tags")[self._tags]]
        if len(tag_params) != len(names):
            raise ConfigError(
                f"Decision.tag_params must have all {len(names)} parameters of tags {self._tags} "
                f"({', '.join(names)}), got {len(tag_params)} numbers"
            )
        values = check_named("tags", self._tags, tuple(zip(names, np.asarray(tag_params).tolist(), strict=True)))
        network.retag(np.array(list(values.values()), np.int64))

    @classmethod
    def stopped(cls, network: Network, error: Exception) -> str:
        """Return the error message for a network that failed."""
        return f"The {cls.title} run stopped at {network.now_ns / NS_PER_S:.6f} s: {error}."

    def windows(self, flows: Sequence[int]) -> IntArray:
        """Return congestion windows [n] of flows now, in bytes of payload; 0 without a connection."""
        network, _ = self._running("windows")
        return np.array([network.sender_window(flow)[0] for flow in flows], dtype=np.int64)

    def finish(self) -> Records:
        """Return the records as of now; may be called again later."""
        network, _ = self._running("finish")
        return Records(
            flows=FlowRecords(**network.flow_records()),
            ports=PortRecords(**network.port_records()),
        )

    def close(self) -> None:
        """Free the simulation; the object may be started again."""
        self._network = None
        self._topology = None

    def __getstate__(self) -> dict[str, object]:
        if self._network is not None:
            raise DatapathError(f"A running {self.title} simulation cannot be copied or pickled: close() it before.")
        return self.__dict__.copy()

    def _running(self, call: str) -> tuple[Network, Topology]:
        if self._network is None or self._topology is None:
            raise DatapathError(f"{type(self).__name__}.{call}() needs a running simulation: call start() first.")
        if self._stepping:
            raise DatapathError(f"{type(self).__name__}.{call}() was called while another thread is in step().")
        return self._network, self._topology

    def _measure(self, network: Network, topology: Topology) -> Measurement:
        blocks = Blocks(topology)
        network.measure(*blocks.arrays)
        measurement = blocks.measurement()
        if self._sizes_bytes is not None:
            rows, took_ns = network.take_delivered()
            measurement = replace(measurement, delivered=Delivered(self._sizes_bytes[rows], took_ns / NS_PER_S))
        if self._neighbourhoods == "uplink":
            return measurement
        whole, real = network.edges()
        edges = Edges(*whole.reshape(-1, 3).T, *real.reshape(-1, 4).T)
        self._measured = replace(measurement, edges=edges, queues=Queues(network.queues_into()))
        return self._measured
