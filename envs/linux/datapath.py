# SPDX-License-Identifier: BSD-3-Clause
"""`LinuxDatapath`: the kernel's own TCP between network namespaces on this machine, stepped in real time.

What runs is real: every flow of the list is a connection between two sockets; packets pass veth pairs, token buckets
and the marking program of the switches (`rack`); the controller is the header of `baselines/` inside the kernel
(`shim`), or one of the kernel's own (``linux::cubic``). A period is as long as it says: `step` puts the decision into
force, sleeps until the period's end and reads what was measured.

What follows from that. Equal seeds give equal flows, not equal runs. A period whose end has passed before its decision
came is *missed*: its number is skipped, never made up for, and it is counted; the next measurement speaks of the time
since the last one. Flows start at their time to within what the machine's timers allow, some ten microseconds.
Connections are closed without packets, as in simulators. What a scenario asks and the kernel does otherwise is in
`facts`, with everything else that a result must not be without: missed periods, lateness, load, counters of the shim.

The rate limit is on IP packets with data, held by pacing (`shim`): `nic.bucket_bytes` has no counterpart, and pure ACKs
are not limited. `throughput_bps` counts all packets that the host sent, ACKs included, also those to nodes inside its
neighbourhood; `facts` say so where a run has such flows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.extras import require_extra
from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.envs.linux.decide import hastened
from ncc.envs.linux.delay import MIN_DELAY_S
from ncc.envs.linux.objects import require_built
from ncc.envs.linux.run import Run
from ncc.envs.linux.senders import KERNEL, check_stack, transports
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.shim import Shim
from ncc.harness.datapath import HostStack, Records
from ncc.harness.limiter import RateLimiter


@dataclass(frozen=True)
class Configured:
    """Makes datapaths with settings, in whatever process calls it."""

    settings: LinuxSettings
    alone: bool = True
    """See `ncc.harness.datapath.Alone`."""

    def __call__(self) -> "LinuxDatapath":
        return LinuxDatapath(self.settings)


class LinuxDatapath:
    """The kernel behind the `Datapath` protocol. One run may live on a machine; it takes root.

    `transports` are the headers of `baselines/` that were built for the kernel, and the kernel's own as
    ``linux::cubic`` and so on: those take no rate limit and no flow order.
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
        """What makes datapaths with these settings; `ConfigError` names the one that cannot be."""
        return Configured(from_dict(LinuxSettings, plain, where))

    def transports(self) -> tuple[str, ...]:
        """Our headers, which the build compiles for the kernel, and the kernel's own congestion controls.

        Raises:
            MissingExtraError: pyroute2 is not installed.
            DatapathError: nothing was built for the kernel; says what the build lacked.
        """
        require_extra("linux", "datapath=linux")
        require_built()
        return transports()

    def hastened(self, limiter: RateLimiter) -> RateLimiter:
        """A trained policy as one call (`ncc.envs.linux.decide`); see `ncc.harness.run.Hastens`."""
        return hastened(limiter)

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        """Build the rack; time begins with the first `step`. Ends an earlier run of this object.

        Nothing is drawn from `seed`: chance here is the machine's own.

        Raises:
            UnknownNameError: no such transport, parameter or order; the message lists what exists.
            ConfigError: something that the rack or the kernel does not offer, or flows that cannot be sent.
            DatapathError: the machine lacks something, is busy, or another run has it.
        """
        self.close()
        check_stack(stack)
        _check_scenario(scenario, stack, self.settings)
        require_built()
        self._facts, self._fallbacks = {}, ()
        self._run = run = Run(scenario, flows, stack, self.settings)
        return run.first()

    def take_over(self, scenario: Scenario, flows: FlowTable, stack: HostStack) -> Measurement:
        """Go on with the run that a process left which was killed, if it let its flows outlive it.

        Its scenario, flows and stack must be these. What happened before counts as one epoch; limits hold again from
        the first `step` on. `close` ends it as if it were this object's own.

        Raises:
            DatapathError: no such run was left, or its process is alive; otherwise as `start`.
        """
        self.close()
        check_stack(stack)
        _check_scenario(scenario, stack, self.settings)
        _check_outlive(scenario, "take_over")
        self._facts, self._fallbacks = {}, ()
        self._run = run = Run(scenario, flows, stack, self.settings, take_over=True)
        return run.first()

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        """Put limits [n_agents] (bits/s, > 0, inf for none) into force and wait for the period's end.

        Raises:
            ConfigError: wrong shape, NaN, zero or negative limits, naming the host; or a limit that cannot be held.
            DatapathError: nothing is started, the traffic program ended, or the run's longest time is over.
        """
        run = self._running("step")
        return run.step(run.checked(rate_limits_bps))

    def finish(self) -> Records:
        """Records as of the last period's end; may be called again."""
        run = self._running("finish")
        records = run.records()
        self._facts, self._fallbacks = run.facts(), run.fallbacks()
        return records

    @property
    def facts(self) -> Mapping[str, Any]:
        """Of the run that `finish` was called for last: see `ncc.harness.run.ReportsFacts`."""
        return self._facts

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """What the run did otherwise than asked, a sentence each; known after `finish`."""
        return self._fallbacks

    @property
    def shim(self) -> Shim | None:
        """Reports and decisions of the run that is under way; None without one, and for the kernel's own."""
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
    if not scenario.transport.handshake:
        raise ConfigError(
            "Scenario.transport.handshake must be true on linux, whose connections always begin with one: set it so, "
            "or use datapath=packetsim"
        )
    if scenario.transport.rtt_noise_max_s:
        raise ConfigError(
            "Scenario.transport.rtt_noise_max_s must be 0 on linux, where controllers hear the RTT as it is: set it "
            "so, or use datapath=packetsim"
        )
    settings.check_length(scenario.duration_s, scenario.drain_s)
    if not stack.transport.startswith(KERNEL):
        settings.check_heartbeat(scenario.period_s, scenario.decision_latency_s)
    if settings.outlive:
        _check_outlive(scenario, "datapath.linux.settings.outlive")


def _check_outlive(scenario: Scenario, what: str) -> None:
    topology = scenario.network()
    for i, link in enumerate(topology.links):
        if link.delay_s >= MIN_DELAY_S:
            raise ConfigError(
                f"{what} needs links that go on without the process that made them, and the delay of "
                f"{topology.port_name(2 * i)} ({link.delay_s * 1e6:g} us) ends with it: use links of less than "
                f"{MIN_DELAY_S * 1e6:g} us"
            )


DATAPATH = LinuxDatapath
