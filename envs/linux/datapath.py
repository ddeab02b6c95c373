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
are not limited. `throughput_bps` counts all packets that the host sent, ACKs included.
"""

import gc
import os
import platform
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import NS_PER_S, to_ns
from ncc.core.value import from_dict
from ncc.envs.linux import machine, traffic
from ncc.envs.linux.measure import PORT_COUNTERS, Meter
from ncc.envs.linux.senders import KERNEL, KernelSenders, Senders, ShimSenders, check_stack, transports
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from ncc.harness.datapath import HostStack, Records

LEAD_NS = 5_000_000
"""From the first `step` to time 0, so that nobody is late for it."""
CHECK_PERIODS = 50
"""How often it is looked whether the traffic program still runs."""
LATE_QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


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
        self._run: _Run | None = None
        self._facts: dict[str, Any] = {}
        self._fallbacks: tuple[str, ...] = ()

    @classmethod
    def configured(cls, plain: Mapping[str, Any], where: str) -> Configured:
        """What makes datapaths with these settings; `ConfigError` names the one that cannot be."""
        return Configured(from_dict(LinuxSettings, plain, where))

    def transports(self) -> tuple[str, ...]:
        """Headers that were built for the kernel, and the kernel's own congestion controls."""
        return transports()

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
        _check_scenario(scenario, self.settings)
        self._facts, self._fallbacks = {}, ()
        self._run = run = _Run(scenario, flows, stack, self.settings)
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

    def close(self) -> None:
        """Take everything down; the object may be started again."""
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def __getstate__(self) -> dict[str, object]:
        if self._run is not None:
            raise DatapathError("A running Linux datapath cannot be copied or pickled: close() it before.")
        return self.__dict__.copy()

    def _running(self, call: str) -> "_Run":
        if self._run is None:
            raise DatapathError(f"LinuxDatapath.{call}() needs a run: call start() first.")
        return self._run


def _check_scenario(scenario: Scenario, settings: LinuxSettings) -> None:
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


class _Run:
    """One run, from its rack to its records."""

    def __init__(self, scenario: Scenario, flows: FlowTable, stack: HostStack, settings: LinuxSettings) -> None:
        self.scenario, self.flows, self.settings = scenario, flows, settings
        self.topology = scenario.network()
        self._undo = ExitStack()
        own, self._traffic_cores = machine.split_cores() if settings.cores == "split" else ((), ())
        self._realtime, self._cores = machine.Realtime(), machine.Cores(own)
        self._undo.callback(self._realtime.leave)
        self._undo.callback(self._cores.leave)
        self._period_ns = to_ns(scenario.period_s)
        self._latency_ns = to_ns(scenario.decision_latency_s)
        self._epoch = self._missed = 0
        self._late_ns: list[int] = []
        self._start_ns = self._read_ns = 0
        self._cpu_s = self._wall_s = self._cpu_frac = 0.0
        self._finish_ns = np.zeros(len(flows), np.uint64)
        try:
            self._build(stack)
        except BaseException:
            self.close()
            raise

    def _build(self, stack: HostStack) -> None:
        machine.require()
        self._undo.callback(os.close, machine.take_machine())
        if self.settings.scheduling == "fifo":  # now rather than at the first step
            self._realtime.enter()
            self._realtime.leave()
        self._busy_frac = machine.busy_frac()
        if self._busy_frac > self.settings.busy_frac and self.settings.busy == "refuse":
            raise DatapathError(
                f"This machine is busy: {self._busy_frac:.0%} of its cores are in use, at most "
                f"{self.settings.busy_frac:.0%} may be (datapath.linux.settings.busy_frac); wait, or set "
                "datapath.linux.settings.busy=label."
            )
        # Here, not above: without pyroute2 there is no rack, and still a list of transports.
        from ncc.envs.linux.rack import Rack
        from ncc.envs.linux.stack import not_honoured
        from ncc.envs.linux.switch import STATS

        topology, scenario = self.topology, self.scenario
        self._not_honoured = not_honoured(scenario.transport)
        self._rack = self._undo.enter_context(
            Rack(
                topology,
                scenario.transport,
                scenario.nic,
                segmentation_offload=self.settings.segmentation_offload,
            )
        )
        self._counters = [list(STATS.names or ()).index(name) for name in PORT_COUNTERS]
        self._senders = self._steering(stack)
        self._undo.callback(self._senders.close)
        row = {host: i for i, host in enumerate(topology.hosts)}
        self._traffic = self._undo.enter_context(
            Traffic(
                [Sender(self._rack.namespace(host), self._rack.address(host)) for host in topology.hosts],
                self.flows,
                np.array([row[host] for host in self.flows.src.tolist()], np.int64),
                np.array([row[host] for host in self.flows.dst.tolist()], np.int64),
                self._options(),
            )
        )
        self.meter = Meter(scenario, self.flows, self._ports())

    def _steering(self, stack: HostStack) -> Senders:
        if stack.transport.startswith(KERNEL):
            return KernelSenders(stack, self.topology)
        addresses = [self._rack.address(host) for host in self.topology.agent_hosts]
        return ShimSenders(stack, addresses, self.topology, timeout_s=self.settings.heartbeat_timeout_s)

    def _options(self) -> TrafficOptions:
        transport, settings = self.scenario.transport, self.settings
        return TrafficOptions(
            congestion=self._senders.congestion,
            ecn=self._senders.ecn,
            deadline_s=settings.check_length(self.scenario.duration_s, self.scenario.drain_s),
            send_buffer_bytes=transport.send_buffer_bytes,
            receive_buffer_bytes=transport.receive_buffer_bytes,
            sample_s=self.scenario.period_s if self._senders.samples else 0.0,
            nice=machine.TRAFFIC_NICE if settings.scheduling == "fifo" else 0,
            outlive=settings.outlive,
            keep=tuple(self._senders.links()),
            cores=self._traffic_cores,
        )

    def first(self) -> Measurement:
        """At time 0, when nothing has been sent."""
        return self._measured(0.0, np.full(len(self.topology.agent_hosts), np.inf))

    def checked(self, limits_bps: FloatArray) -> FloatArray:
        """The limits, or `ConfigError`."""
        hosts = self.topology.agent_hosts
        limits = np.ascontiguousarray(limits_bps, dtype=np.float64)
        if limits.shape != (len(hosts),):
            raise ConfigError(
                f"rate_limits_bps must have shape ({len(hosts)},), one per agent host, got {limits.shape}"
            )
        if not (limits > 0).all():
            index = int(np.flatnonzero(~(limits > 0))[0])
            raise ConfigError(
                f"rate_limits_bps of host {self.topology.nodes[hosts[index]].name} (index {index}) must be above 0 "
                f"bits/s, or inf for no limit, got {limits[index]}"
            )
        return limits

    def step(self, limits_bps: FloatArray) -> Measurement:
        if self._epoch % CHECK_PERIODS == 0:
            self._traffic.check()
        if self._start_ns == 0:
            self._begin()
        if self._latency_ns:
            _sleep_until(self._start_ns + self._epoch * self._period_ns + self._latency_ns)
        self._senders.decide(limits_bps, time.monotonic_ns(), self.meter, self._epoch * self.scenario.period_s)
        self._wait()
        now_ns = time.monotonic_ns()
        interval_s, self._read_ns = (now_ns - self._read_ns) / NS_PER_S, now_ns
        self._senders.hear(self.meter, self._traffic)
        # In this order: a flow that ends meanwhile counts in the next period.
        self._finish_ns = self._traffic.flows["finish_ns"].copy()
        return self._measured(interval_s, limits_bps)

    def _begin(self) -> None:
        # What is there now stays: looking through it again takes milliseconds, and may come in any period.
        gc.collect()
        gc.freeze()
        self._undo.callback(gc.unfreeze)
        self._cores.enter()
        if self.settings.scheduling == "fifo":
            self._realtime.enter()
        self._start_ns = self._read_ns = time.monotonic_ns() + LEAD_NS
        self._cpu_s, self._wall_s = time.thread_time(), time.monotonic()
        self._traffic.begin(self._start_ns)

    def _wait(self) -> None:
        """Until the end of this period; or, where that has passed, of the one that is under way."""
        self._epoch += 1
        end_ns, now_ns = self._start_ns + self._epoch * self._period_ns, time.monotonic_ns()
        if now_ns >= end_ns:
            missed = 1 + (now_ns - end_ns) // self._period_ns
            self._missed, self._epoch = self._missed + missed, self._epoch + missed
            end_ns += missed * self._period_ns
        if end_ns > self._start_ns + round(self.settings.longest_s * NS_PER_S):
            raise DatapathError(
                f"The run has lasted {self.settings.longest_s:g} s, and its flows have ended unfinished: shorten the "
                "scenario, or raise datapath.linux.settings.longest_s."
            )
        _sleep_until(end_ns)
        self._late_ns.append(time.monotonic_ns() - end_ns)

    def _measured(self, interval_s: float, limits_bps: FloatArray) -> Measurement:
        return self.meter.measure(
            epoch=self._epoch,
            time_s=self._epoch * self.scenario.period_s,
            interval_s=interval_s,
            limits_bps=limits_bps,
            finished=self._finish_ns > 0,
            ports=self._ports(),
        )

    def _ports(self) -> IntArray:
        stats = self._rack.switch.sample()
        # Rows of 64-bit counters: one copy, then columns by their numbers.
        counters: IntArray = stats.view(np.int64).reshape(len(stats), -1)[:, self._counters]
        return counters

    def records(self) -> Records:
        """Flows that ended after the last period count as unfinished, as the last measurement says."""
        self._realtime.leave()
        self._cores.leave()
        if self._start_ns:
            self._cpu_frac = (time.thread_time() - self._cpu_s) / (time.monotonic() - self._wall_s)
            self._traffic.snapshot()
        rows, meter = self._traffic.flows, self.meter
        finished = self._finish_ns > 0
        # A difference of unsigned numbers, which is as it should be even where time 0 lies ahead.
        since_ns = (self._finish_ns - np.uint64(self._start_ns)).astype(np.int64)
        sampled, smallest = meter.rtt_samples > 0, rows["min_rtt_us"]
        flows = FlowRecords(
            finish_s=np.where(finished, since_ns / NS_PER_S, np.nan),
            sent_pkts=rows["sent_pkts"].astype(np.int64),
            retransmitted_pkts=rows["retransmitted_pkts"].astype(np.int64),
            timeouts=rows["timeouts"].astype(np.int64),
            ce_pkts=rows["ce_pkts"].astype(np.int64),
            rtt_mean_s=np.where(sampled, meter.rtt_sum_s / np.where(sampled, meter.rtt_samples, 1), np.nan),
            rtt_min_s=np.where(smallest > 0, smallest / 1e6, np.nan),
        )
        return Records(flows=flows, ports=self._rack.records())

    def facts(self) -> dict[str, Any]:
        late_us = np.array(self._late_ns or [0]) / 1000
        return {
            "kernel": platform.release(),
            "settings": self.settings.to_dict(),
            "busy_frac_before": round(self._busy_frac, 3),
            "busy": self._busy_frac > self.settings.busy_frac,
            "periods": self._epoch,
            "missed_periods": self._missed,
            "late_us": {name: round(float(np.quantile(late_us, q)), 1) for name, q in LATE_QUANTILES.items()},
            "agent_cpu_frac": round(self._cpu_frac, 4),
            "not_honoured": list(self._not_honoured),
            "shim": self._senders.counters(),
            "torn_reports": self._senders.torn,
            "failed_flows": self._failed(),
        }

    def _failed(self) -> dict[str, str]:
        """By row: why its connection ended early."""
        rows = self._traffic.flows
        failed = np.flatnonzero(rows["state"] == traffic.FAILED).tolist()
        return {str(row): os.strerror(int(rows["error"][row])) for row in failed}

    def fallbacks(self) -> tuple[str, ...]:
        said, counters, timeout_s = [], self._senders.counters(), self.settings.heartbeat_timeout_s
        if self._senders.steers and self._missed > self.settings.missed_frac * self._epoch:
            said.append(f"{self._missed} of {self._epoch} periods had no decision: the machine is too loaded")
        if self._senders.steers and (n := counters.get("fallbacks", 0)):
            said.append(f"decisions stopped for more than {timeout_s:g} s, and connections fell back {n} times")
        if n := counters.get("unreported", 0):
            said.append(f"{n} connections found no free slot: they were neither reported nor limited")
        for row, why in list(self._failed().items())[:3]:
            said.append(f"the connection of flow {row} ended early: {why}")
        return tuple(said)

    def close(self) -> None:
        self._undo.close()


def _sleep_until(at_ns: int) -> None:
    while (left_ns := at_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / NS_PER_S)


DATAPATH = LinuxDatapath
