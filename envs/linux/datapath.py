# SPDX-License-Identifier: BSD-3-Clause
"""`LinuxDatapath`: the kernel's own TCP between network namespaces on this machine, stepped in real time.

Every flow of the list has a connection between two sockets: its own, or one that earlier flows have used
(`transport.connections_per_pair`). Packets pass veth pairs, token buckets and the marking program of the switches
(`rack`). The controller is the header of `baselines/` inside the kernel (`shim`), or one of the kernel's own
(``linux::cubic``). Periods pass in real time: `step` puts the decision into force, sleeps until the period's end and
reads the measurements.

Equal seeds therefore give equal flows, not equal runs. A period that ends before its decision has come is *missed*: it
is counted and skipped, and the next measurement covers the time since the last one. Flows start on time to about ten
microseconds, the accuracy of the machine's timers. Connections are closed without packets, as in simulators.
`facts` list the differences between kernel and scenario, and everything else that a reader of the results must know:
missed periods, lateness, load, counters of the shim.

The rate limit applies to all packets of a host, which wait in a queue there that also keeps the order among its flows
(`queue`). Stacks without an order have such queues only with `datapath.linux.settings.queues=true`. `throughput_bps`
counts all packets that the host sent, including ACKs and packets to nodes inside its neighbourhood; `facts` say so for
runs with such flows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.graph import check_graph
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.envs.linux.layout import FLOWS_MAX
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.run import Run
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import KERNEL, check_stack, transports
from ncc.harness.datapath import HostStack, Records


@dataclass(frozen=True)
class Configured:
    """Picklable factory of datapaths with given settings."""

    settings: LinuxSettings
    alone: bool = True
    """True: a run shares the machine with no other run (`ncc.harness.datapath.Datapath`)."""

    def __call__(self) -> "LinuxDatapath":
        return LinuxDatapath(self.settings)


class LinuxDatapath:
    """The `Datapath` protocol on this machine's kernel. A machine has room for one run at a time; a run needs root.

    `transports` are the headers of `baselines/` that were built for the kernel, and the kernel's own as
    ``linux::cubic`` and so on.
    """

    name = "linux"
    alone = True

    def __init__(self, settings: LinuxSettings = LinuxSettings()) -> None:  # noqa: B008 - frozen
        self.settings = settings
        self._run: Run | None = None
        self._facts: dict[str, Any] = {}
        self._fallbacks: tuple[str, ...] = ()

    @classmethod
    def configured(cls, plain: Mapping[str, Any], where: str) -> Configured:
        """Make a factory of datapaths with these settings; `ConfigError` names a setting that is not allowed."""
        return Configured(from_dict(LinuxSettings, plain, where))

    def transports(self) -> tuple[str, ...]:
        """List the controllers of `baselines/` built for the kernel, and the kernel's own congestion controls.

        Raises:
            DatapathError: nothing was built for the kernel; the message says what the build lacked.
        """
        require_built()
        return transports()

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build the network of namespaces; time begins with the first `step`. Ends an earlier run of this object.

        `seed` decides which messages are late or lost if the scenario asks for that; all other chance is the machine's.

        Raises:
            UnknownNameError: no such transport, parameter or order; the message lists what exists.
            ConfigError: the scenario asks for something that the rack or the kernel does not offer, or has flows that
                cannot be sent.
            DatapathError: the machine lacks something, is busy, or another run has it.
        """
        self.close()
        check_stack(stack)
        _check_scenario(scenario, stack, self.settings)
        check_graph(flows)
        _check_flows(scenario, flows)
        require_built()
        self._facts, self._fallbacks = {}, ()
        self._run = run = Run(scenario, flows, stack, self.settings, seed)
        return run.first()

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        """Put limits [n_agents] (bits/s, > 0, inf for none) into force and wait for the period's end.

        Raises:
            ConfigError: wrong shape, NaN, zero or negative limits, naming the host; or a limit that cannot be held.
            DatapathError: nothing is started, the traffic program ended, or the run's longest time is over.
        """
        run = self._running("step")
        return run.step(run.checked(rate_limits_bps))

    def tell(self, grants: Grants) -> None:
        """Send receivers' grants at the next `step`; see `ncc.harness.datapath.tell`.

        Only a transport of `baselines/` can take them.
        """
        self._running("tell").tell(grants)

    def finish(self) -> Records:
        """Return the records as of the end of the last period; may be called again."""
        run = self._running("finish")
        records = run.records()
        self._facts, self._fallbacks = run.facts(), run.fallbacks()
        return records

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts of the run that `finish` was last called for; see `ncc.harness.run.run_once`."""
        return self._facts

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Sentences on how the run departed from its request; known after `finish`."""
        return self._fallbacks

    @property
    def shim(self) -> Shim | None:
        """Shim of the run that is under way; None without a run, and for the kernel's own congestion controls."""
        return self._run.shim if self._run is not None else None

    def close(self) -> None:
        """Take everything down; the object may be started again."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def __getstate__(self) -> dict[str, object]:
        if self._run is not None:
            raise DatapathError("A running Linux datapath cannot be copied or pickled: close() it before.")
        return self.__dict__.copy()

    def _running(self, call: str) -> Run:
        if self._run is None:
            raise DatapathError(f"LinuxDatapath.{call}() needs a run: call start() first.")
        return self._run


def _check_scenario(scenario: Scenario, stack: HostStack, settings: LinuxSettings) -> None:
    if stack.hold and not scenario.has_receivers:
        raise ConfigError("hold needs receivers: set Scenario.neighbourhoods to receivers or both")
    if stack.hold and stack.transport.startswith(KERNEL):
        raise ConfigError(
            f"Flows cannot be held over {stack.transport}, which is the kernel's own: use a transport of our own"
        )
    if stack.messages == "instant":
        raise ConfigError(
            "stack.messages must be packets on linux, where no receiver knows of a flow at once: leave this controller "
            "out, or use datapath=packetsim or ns3"
        )
    if not scenario.transport.handshake:
        raise ConfigError(
            "Scenario.transport.handshake must be true on linux, whose connections always begin with one: set it so, "
            "or use datapath=packetsim or ns3"
        )
    if scenario.transport.rtt_noise_max_s:
        raise ConfigError(
            "Scenario.transport.rtt_noise_max_s must be 0 on linux, where controllers get the RTT as it is: set it "
            "so, or use datapath=packetsim"
        )
    if scenario.nic.knows == "services":
        raise ConfigError(
            "Scenario.nic.knows must be sizes or backlog on linux, where hosts learn nothing of services: set it "
            "so, or use datapath=packetsim or ns3"
        )
    settings.check_length(scenario.duration_s, scenario.drain_s)
    if not stack.transport.startswith(KERNEL) or stack.order != "fifo":
        settings.check_heartbeat(scenario.period_s, scenario.decision_latency_s)


def _check_flows(scenario: Scenario, flows: FlowTable) -> None:
    if flows.streams is not None:
        raise ConfigError(
            "streams that hosts pass on, such as those of SICC's hubs, do not run on linux: use datapath=packetsim or "
            "ns3"
        )
    pairs = np.unique(np.stack([flows.src, flows.dst])[:, flows.size_bytes > 0], axis=1).shape[1]
    most, asked = FLOWS_MAX // max(pairs, 1), scenario.transport.connections_per_pair
    if asked > most:
        raise ConfigError(
            f"Scenario.transport.connections_per_pair must be at most {most} on linux for flows between {pairs} pairs "
            f"of hosts, got {asked}: lower it, or use datapath=packetsim"
        )
    if flows.graph is not None and flows.graph.answer.any() and not asked:
        raise ConfigError(
            "Scenario.transport.connections_per_pair must be at least 1 on linux, where answers of requests take "
            "connections that are open from the start: set it so, or use datapath=packetsim or ns3"
        )


DATAPATH = LinuxDatapath
