# SPDX-License-Identifier: BSD-3-Clause
"""`Run`: one run of the Linux datapath."""

import gc
import os
import platform
import time
from contextlib import ExitStack
from typing import Any

import numpy as np

from ncc.baselines.registry import check_named
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray, records
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import BUFFER_BYTES, Scenario
from ncc.core.units import NS_PER_S, to_ns
from ncc.core.writes import pieces
from ncc.envs.linux import machine, namespaces, traffic
from ncc.envs.linux.gates import Gates
from ncc.envs.linux.machine import Periods, sleep_until
from ncc.envs.linux.measure import PORT_COUNTERS, Meter
from ncc.envs.linux.order_program import OrderProgram, TagProgram
from ncc.envs.linux.queue import Queues
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.senders import KernelSenders, Senders, ShimSenders
from ncc.envs.linux.settings import GRACE_S, LinuxSettings
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.stack import KERNEL, announced_bytes, min_rto_s, mode_of, not_honoured
from ncc.envs.linux.switch import STATS, programs_of
from ncc.envs.linux.traffic import Fronts, Sender, Traffic, TrafficOptions
from ncc.envs.linux.wake import Waker
from ncc.envs.native.requests import front_ends
from ncc.harness.datapath import HostStack, Records
from ncc.harness.limits import checked_limits
from ncc.harness.messages import patience_s
from ncc.metrics.fct import base_rtt_s

LEAD_NS = 5_000_000
"""Nanoseconds from the first `step` to time 0, enough for all programs to be ready."""
CHECK_PERIODS = 50
"""Number of periods between two checks that the traffic program still runs."""
LATE_QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
NOT_MESSAGES = (
    "stack.messages: receivers' grants are no packets, since one process decides for all hosts: they take no "
    "bandwidth, and are as late and as lost as the scenario says.",
    "A flow begins at the start of the period that is nearest to its granted start; a flow that waits for 200 ms or "
    "more sends a packet each time the kernel probes the path.",
)


class Run:
    """One run: it builds the network of namespaces, steps it in real time, and returns measurements and records."""

    def __init__(
        self, scenario: Scenario, flows: FlowTable, stack: HostStack, settings: LinuxSettings, seed: int
    ) -> None:
        self.scenario, self.flows, self.settings = scenario, flows, settings
        self.topology, self._stack, self._seed = scenario.network(), stack, seed
        self._undo = ExitStack()
        self._own_cores, self._traffic_cores = machine.split_cores()
        self._scheduling = self._undo.enter_context(ExitStack())
        self._periods = Periods(to_ns(scenario.period_s))
        self._latency_ns = to_ns(scenario.decision_latency_s)
        self._longest_s = settings.check_length(scenario.duration_s, scenario.drain_s)
        self._late_ns: list[int] = []
        self._read_ns = 0
        self._begun = False
        self._cpu_s = self._wall_s = self._ready_s = self._cpu_frac = self._waited_s = 0.0
        self._finish_ns = np.zeros(len(flows), np.uint64)
        self._last: Measurement
        self._columns = np.array([list(STATS.names or ()).index(name) for name in PORT_COUNTERS])
        try:
            self._prepare()
            self._build(stack)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Take the machine's lock and check that a run is possible."""
        self._undo.enter_context(machine.taken())
        machine.require()
        if self.settings.scheduling == "fifo":  # fails now rather than at the first step
            with ExitStack() as tried:
                machine.go_first(tried)
        self._busy_frac = machine.busy_frac()

    def _build(self, stack: HostStack) -> None:
        topology, scenario, settings, transport = self.topology, self.scenario, self.settings, self.scenario.sockets
        self.mode = None if stack.order == "fifo" and not settings.queues else mode_of(stack.order)
        program = None
        if self.mode is not None:
            program = OrderProgram(settings.heartbeat_timeout_s, self.mode, stack.order_params)
            self._undo.callback(program.close)
        tags = None
        if stack.tags != "none":
            tags = TagProgram(stack.tags, stack.tag_params)
            self._undo.callback(tags.close)
        tells = any(loaded is not None and loaded.takes_sizes for loaded in (program, tags))
        rack = Rack(topology, transport, scenario.nic, program, tags)
        self._rack, self._switch = self._undo.enter_context(rack), rack.switch
        self._queues = Queues(program, [rack.queues[host] for host in topology.agent_hosts]) if program else None
        self._senders: Senders = (
            KernelSenders(stack, topology, self._queues)
            if stack.transport.startswith(KERNEL)
            else ShimSenders(
                stack,
                rack,
                topology,
                self._queues,
                timeout_s=settings.heartbeat_timeout_s,
                proportional=scenario.transport.recovery == "modern",
                patience_s=patience_s(scenario) if stack.hold else 0.0,
            )
        )
        self._undo.callback(self._senders.close)
        options = TrafficOptions(
            congestion=self._senders.congestion,
            ecn=self._senders.ecn,
            deadline_s=self._longest_s,
            send_buffer_bytes=0 if scenario.nic.knows == "backlog" else transport.send_buffer_bytes or BUFFER_BYTES,
            receive_buffer_bytes=transport.receive_buffer_bytes or BUFFER_BYTES,
            sample_s=scenario.period_s if self._senders.samples else 0.0,
            nice=machine.TRAFFIC_NICE if settings.scheduling == "fifo" else 0,
            connections_per_pair=transport.connections_per_pair,
            pieces=pieces([component.writes for _, component in scenario.workload], self.flows.traffic),
            marks=self.shim is not None,
            announced_bytes=announced_bytes(transport, scenario.nic) if tells else 0,
            fins=bool(programs_of(topology)),
            fronts=_fronts(scenario, self.flows, stack, min_rto_s(transport, self.mode)),
            cores=self._traffic_cores,
        )
        ends = [Sender(rack.namespace(host), rack.address(host)) for host in topology.hosts]
        row = {host: i for i, host in enumerate(topology.hosts)}
        src, dst = (
            np.array([row[host] for host in column.tolist()], np.int64) for column in (self.flows.src, self.flows.dst)
        )
        self._traffic = self._undo.enter_context(Traffic(ends, self.flows, src, dst, options))
        self._switch.begin()
        # Rows are 64-bit counters, so one copy takes the wanted columns.
        stats = self._switch.sample()
        self._stats: IntArray = stats.view(np.int64).reshape(len(stats), -1)
        self.meter = Meter(scenario, self.flows, self._ports())
        self._gates = self._make_gates(rack) if scenario.has_receivers else None

    def _make_gates(self, rack: Rack) -> Gates:
        wakers: dict[int, Waker] = {}
        for host in np.unique(self.flows.src).tolist() if self._stack.hold else ():
            with namespaces.inside(rack.namespace(host)):
                wakers[host] = Waker(rack.address(host))
            self._undo.callback(wakers[host].close)
        addresses = {host: rack.address(host) for host in self.topology.hosts}
        answer_frac = self._stack.answer_frac
        return Gates(self.scenario, self.flows, self._seed, wakers, addresses, answer_frac=answer_frac)

    @property
    def shim(self) -> Shim | None:
        """Shim of the run; None for the kernel's own congestion controls."""
        return self._senders.shim

    def first(self) -> Measurement:
        """Measure at time 0, when nothing has been sent."""
        return self._measured(0.0, np.full(len(self.topology.agent_hosts), np.inf))

    def checked(self, limits_bps: FloatArray) -> FloatArray:
        """Return the limits as an array [n_agents]; raise `ConfigError` for a wrong shape or value."""
        return checked_limits(limits_bps, self.topology, self.scenario.neighbourhoods)

    def tell(self, grants: Grants) -> None:
        """Send receivers' grants at the next step; see `ncc.harness.datapath.tell`."""
        if self._gates is None:
            raise ConfigError("Grants need receivers: set Scenario.neighbourhoods to receivers or both")
        if self.shim is None and len(grants):
            raise ConfigError(
                f"Senders cannot obey grants over {self._stack.transport}, which is the kernel's own: use a "
                "transport of our own"
            )
        grants.check(self.topology)
        self._gates.tell(grants, self._last)

    def step(self, limits_bps: FloatArray) -> Measurement:
        periods = self._periods
        if periods.epoch % CHECK_PERIODS == 0:
            self._traffic.check()
            self._check_requests()
        if not self._begun:
            self._begin()
        if self._latency_ns:
            sleep_until(periods.start_ns + periods.epoch * periods.period_ns + self._latency_ns)
        if self._gates is not None and isinstance(self._senders, ShimSenders):
            self._gates.decide(self._senders, periods.start_ns, time.monotonic_ns())
        self._senders.decide(limits_bps, time.monotonic_ns(), self.meter)
        self._wait()
        now_ns = time.monotonic_ns()
        interval_s, self._read_ns = (now_ns - self._read_ns) / NS_PER_S, now_ns
        self._senders.report(self.meter, self._traffic)
        # Read after the reports: a flow that ends in between counts in the next period.
        started = self._traffic.started if self.flows.graph is not None else None
        self._finish_ns = self._traffic.flows["finish_ns"].copy()
        if started is not None:
            self.meter.begun(started, self._traffic.flows["start_ns"] / NS_PER_S)
        return self._measured(interval_s, limits_bps)

    def _check_requests(self) -> None:
        """Raise `DatapathError` if a flow has failed for which others wait: their requests cannot end."""
        if self.flows.graph is not None and (failed := self._failed()):
            row, why = next(iter(failed.items()))
            raise DatapathError(f"The connection of flow {row} ended early ({why}), and its request cannot go on.")

    def _begin(self) -> None:
        # Exempt the present objects from garbage collection, which would take milliseconds of some period.
        gc.collect()
        gc.freeze()
        self._undo.callback(gc.unfreeze)
        machine.stay_on(self._own_cores, self._scheduling)
        if self.settings.scheduling == "fifo":
            machine.go_first(self._scheduling)
        self._begun = True
        self._cpu_s, self._wall_s, self._ready_s = time.thread_time(), time.monotonic(), machine.waited_s()
        self._periods.start_ns = self._read_ns = time.monotonic_ns() + LEAD_NS
        self._traffic.begin(self._read_ns)

    def _wait(self) -> None:
        """Sleep until the end of this period or, if that has passed, of the current one."""
        end_ns = self._periods.next_end_ns()
        if end_ns > self._periods.start_ns + round(self._longest_s * NS_PER_S):
            raise DatapathError(
                f"The run has lasted {self._longest_s:g} s, and its flows have ended unfinished: it goes on for "
                f"{GRACE_S:g} s at most after Scenario.duration_s and drain_s, and for "
                "datapath.linux.settings.longest_s in all."
            )
        sleep_until(end_ns)
        self._late_ns.append(time.monotonic_ns() - end_ns)

    def _measured(self, interval_s: float, limits_bps: FloatArray) -> Measurement:
        time_s = self._periods.epoch * self.scenario.period_s
        measured = self.meter.measure(
            epoch=self._periods.epoch,
            time_s=time_s,
            interval_s=interval_s,
            limits_bps=limits_bps,
            finished=self._finish_ns > 0,
            ports=self._ports(),
        )
        if self._gates is None:
            return measured
        # Set directly, as `Blocks.made` does: `dataclasses.replace` would set all fields one by one.
        vars(measured)["edges"] = self._gates.edges(self.meter, self._traffic.flows["state"], time_s)
        self._last = measured
        return measured

    def _ports(self) -> IntArray:
        self._switch.sample()
        return self._stats.take(self._columns, axis=1)

    def records(self) -> Records:
        """Return the records; flows that ended after the last period count as unfinished."""
        self._scheduling.close()
        if self._begun:
            self._waited_s = machine.waited_s() - self._ready_s
            self._cpu_frac = (time.thread_time() - self._cpu_s) / (time.monotonic() - self._wall_s)
            self._traffic.snapshot()
        rows, meter = self._traffic.flows, self.meter
        finished = self._finish_ns > 0
        # The difference of unsigned numbers is right even if time 0 is in the future.
        since_ns = (self._finish_ns - np.uint64(self._periods.start_ns)).astype(np.int64)
        sampled, smallest = meter.rtt_samples > 0, rows["min_rtt_us"]
        flows = records(
            FlowRecords,
            finish_s=np.where(finished, since_ns / NS_PER_S, np.nan),
            sent_pkts=rows["sent_pkts"].astype(np.int64),
            retransmitted_pkts=rows["retransmitted_pkts"].astype(np.int64),
            timeouts=rows["timeouts"].astype(np.int64),
            ce_pkts=rows["ce_pkts"].astype(np.int64),
            start_s=meter.start_s,
            rtt_mean_s=np.where(sampled, meter.rtt_sum_s / np.where(sampled, meter.rtt_samples, 1), np.nan),
            rtt_min_s=np.where(smallest > 0, smallest / 1e6, np.nan),
        )
        return Records(flows=flows, ports=self._switch.records())

    def facts(self) -> dict[str, Any]:
        late_us = np.array(self._late_ns or [0]) / 1000
        return {
            "kernel": platform.release(),
            "settings": self.settings.to_dict(),
            "busy_frac_before": round(self._busy_frac, 3),
            "busy": self._busy_frac > self.settings.busy_frac,
            "periods": self._periods.epoch,
            "missed_periods": self._periods.missed,
            "late_us": {name: round(float(np.quantile(late_us, q)), 1) for name, q in LATE_QUANTILES.items()},
            "late_periods_s": round(float(late_us[late_us > self._periods.period_ns / 1e3].sum()) / 1e6, 6),
            "waited_s": round(self._waited_s, 6),
            "agent_cpu_frac": round(self._cpu_frac, 4),
            "not_honoured": [
                *not_honoured(self.scenario.transport, self.scenario.nic, self._stack.order, self.mode),
                *self.meter.not_honoured(),
                *(NOT_MESSAGES if self._gates is not None and self._stack.hold else ()),
            ],
            "receivers": {} if self._gates is None else self._gates.counts,
            "order": self.mode or "none",
            "queues": self._queues.counters() if self._queues is not None else {},
            "shim": self._senders.counters(),
            "torn_reports": self._senders.torn,
            "failed_flows": self._failed(),
        }

    def _failed(self) -> dict[str, str]:
        """Return the errors of connections that ended early, by row of the flow."""
        rows = self._traffic.flows
        failed = np.flatnonzero(rows["state"] == traffic.FAILED).tolist()
        return {str(row): os.strerror(int(rows["error"][row])) for row in failed}

    def fallbacks(self) -> tuple[str, ...]:
        sentences, counters, timeout_s = [], self._senders.counters(), self.settings.heartbeat_timeout_s
        missed, periods = self._periods.missed, self._periods.epoch
        if self._senders.steers and missed > self.settings.missed_frac * periods:
            sentences.append(f"{missed} of {periods} periods had no decision: the machine is too loaded")
        if self._senders.steers and self._queues is None and (n := counters.get("fallbacks", 0)):
            sentences.append(f"decisions stopped for more than {timeout_s:g} s, and connections fell back {n} times")
        if self._senders.steers and self._queues is not None and (n := self._queues.counters()["silent_pkts"]):
            sentences.append(
                f"decisions stopped for more than {timeout_s:g} s, and {n} packets left without a limit or order"
            )
        if n := counters.get("unreported", 0):
            sentences.append(
                f"{n} connections found no free slot: they were neither reported nor held back for their "
                "receivers; their host's limit holds"
            )
        if n := int(self._traffic.header["n_handshakes"][0]):
            sentences.append(
                f"{n} answers found no idle connection and began with a handshake: raise "
                "Scenario.transport.connections_per_pair"
            )
        for row, why in list(self._failed().items())[:3]:
            sentences.append(f"the connection of flow {row} ended early: {why}")
        return tuple(sentences)

    def close(self) -> None:
        self._undo.close()


def _fronts(scenario: Scenario, flows: FlowTable, stack: HostStack, late_s: float) -> Fronts | None:
    """Return the front ends of a run's requests; None if queries leave at once."""
    name, params = stack.front_end
    if name == "one_all" or flows.graph is None:
        return None
    fronts, transport = front_ends(scenario.network(), flows), scenario.sockets
    ports = np.zeros(len(fronts.hosts), traffic.FRONT)
    ports["rate_bytes_per_s"], ports["buffer_bytes"] = fronts.rate_bytes_per_s, fronts.buffer_bytes
    ports["packet_bytes"] = transport.mtu_bytes + transport.frame_overhead_bytes
    asked = np.flatnonzero(fronts.end_of >= 0)
    for src, dst, end in np.unique(np.stack([flows.src, flows.dst, fronts.end_of])[:, asked], axis=1).T.tolist():
        ports["base_rtt_ns"][end] = max(ports["base_rtt_ns"][end], to_ns(base_rtt_s(scenario, src, dst)))
    packets = -(-flows.size_bytes // transport.mss_bytes)
    extra_bytes = transport.mtu_bytes - transport.mss_bytes + transport.frame_overhead_bytes
    return Fronts(
        name,
        tuple(check_named("front end", name, params).values()),
        late_s,
        ports,
        fronts.query_of,
        fronts.end_of,
        flows.size_bytes + packets * extra_bytes,
    )
