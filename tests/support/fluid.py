# SPDX-License-Identifier: BSD-3-Clause
"""A tiny deterministic datapath for tests: max-min fair fluid flows that really finish, and some ways to fail.

The transport's name says how it behaves: `fluid` is right, `sticky` never delivers its largest flow, `killed` and
`aborts` take the process down, `broken` raises, `sloppy` falls back, `slow` takes 20 ms of wall time per epoch.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ncc.core.errors import DatapathError, UnknownNameError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, PortRecords, records
from ncc.core.measurement import Measurement, idle
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.datapath import HostStack, Records

TRANSPORTS = ("fluid", "sticky", "killed", "aborts", "broken", "sloppy", "slow", "dctcp")


class FluidDatapath:
    name = "fluid"

    def __init__(self) -> None:
        self.fallbacks: Sequence[str] = ()
        self._running = False

    def transports(self) -> tuple[str, ...]:
        return TRANSPORTS

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        if stack.transport not in TRANSPORTS:
            raise UnknownNameError("transport", stack.transport, TRANSPORTS)
        net = scenario.network()
        self._scenario, self._flows, self._stack, self._net = scenario, flows, stack, net
        self.fallbacks = ("the sloppy transport pretended",) if stack.transport == "sloppy" else ()
        self._running, self._epoch = True, 0
        self._left = flows.size_bytes.astype(np.float64)
        self._finish = np.full(len(flows), np.nan)
        self._extra_s = np.random.default_rng(seed).random(len(flows)) * 1e-5
        n_ports = 2 * len(net.links)
        paths = [net.path(int(s), int(d)) for s, d in zip(flows.src, flows.dst, strict=True)]
        self._uses = np.array([[port in path for path in paths] for port in range(n_ports)])
        self._uses = np.vstack([self._uses, flows.src == np.array(net.agent_hosts)[:, None]])
        self._capacity = np.array([net.port_rate_bps(port) for port in range(n_ports)])
        self._carried = np.zeros(n_ports)
        return self._measure(np.full(scenario.n_agents, np.inf), np.zeros(len(flows)), 0.0)

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        if not self._running:
            raise DatapathError("step before start: call start first")
        self._misbehave()
        end = (self._epoch + 1) * self._scenario.period_s
        at, before = self._epoch * self._scenario.period_s, self._left.copy()
        while at < end:
            live = (self._flows.start_s <= at) & (self._left > 0)
            rate = fair_rates(self._uses & live, np.concatenate([self._capacity, rate_limits_bps]))
            coming = self._flows.start_s[self._flows.start_s > at]
            until = np.divide(self._left * BITS_PER_BYTE, rate, out=np.full(len(rate), np.inf), where=rate > 0)
            step = min(end - at, coming.min(initial=np.inf) - at, max(until.min(initial=np.inf), 1e-9))
            self._left = np.where(until <= step, 0.0, self._left - rate * step / BITS_PER_BYTE)
            at = end if step == end - at else at + step
            done = live & (self._left <= 0)
            self._finish[done] = at + self._extra_s[done]
        self._epoch += 1
        return self._measure(rate_limits_bps, before - self._left, end)

    def finish(self) -> Records:
        if not self._running:
            raise DatapathError("finish before start: call start first")
        n = len(self._flows)
        sent = self._carried.astype(np.int64)
        zero, none = np.zeros(n, dtype=np.int64), np.zeros(len(sent), dtype=np.int64)
        packets = -(-self._flows.size_bytes // self._scenario.transport.mss_bytes)
        flows = records(
            FlowRecords,
            finish_s=self._finish.copy(),
            sent_pkts=packets,
            retransmitted_pkts=zero,
            timeouts=zero,
            ce_pkts=zero,
            rtt_mean_s=np.full(n, 1e-4),
        )
        ports = records(
            PortRecords,
            tx_pkts=sent // 1500,
            tx_bytes=sent,
            dropped_pkts=none,
            dropped_data_pkts=none,
            marked_pkts=none,
            queue_delay_sum_s=np.zeros(len(sent)),
            queue_max_bytes=none,
        )
        return Records(flows, ports)

    def close(self) -> None:
        self._running = False

    def _misbehave(self) -> None:
        kind, late = self._stack.transport, self._epoch == 3
        if kind == "sticky":
            largest = int(np.argmax(self._flows.size_bytes))
            self._left[largest] = max(self._left[largest], 1e9)
        elif kind == "slow":
            time.sleep(0.02)
        elif kind == "killed" and late:
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "aborts" and late:
            os.abort()
        elif kind == "broken" and late:
            raise DatapathError("the broken transport broke; choose another")

    def _measure(self, limits: FloatArray, moved_bytes: FloatArray, at: float) -> Measurement:
        net, period = self._net, self._scenario.period_s
        self._carried += self._uses[: len(self._capacity)] @ moved_bytes
        mine = self._uses[len(self._capacity) :]
        rate = mine @ moved_bytes * BITS_PER_BYTE / period
        live = (self._flows.start_s < at) & np.isnan(self._finish)
        uplink = np.array([area.uplink_port for area in net.neighbourhoods])
        queued, counts = mine @ np.where(live, self._left, 0.0), (mine & live).sum(axis=1)
        return replace(
            idle(len(limits), len(uplink)),
            time_s=at,
            epoch=self._epoch,
            rate_limit_bps=limits.copy(),
            throughput_bps=rate,
            goodput_bps=rate,
            rtt_s=np.full(len(limits), 1e-4),
            rtt_samples=counts,
            wait_s=counts * period,
            queued_bytes=queued,
            next_bytes=np.where(counts > 0, np.where(mine & live, self._left, np.inf).min(axis=1, initial=1e18), 0.0),
            active_per_byte=mine @ (live / self._flows.size_bytes),
            active_left=mine @ (np.where(live, self._left, 0.0) / self._flows.size_bytes),
            queued_flows=counts,
            active_flows=counts,
            uplink_throughput_bps=self._uses[uplink] @ moved_bytes * BITS_PER_BYTE / period,
            uplink_queue_bytes=np.full(len(uplink), self._epoch % 7 * 1e4),
            flows_started=int((self._flows.start_s < at).sum()),
            flows_finished=int(np.isfinite(self._finish).sum()),
        )


def fair_rates(uses: np.ndarray, capacity: FloatArray) -> FloatArray:
    """Max-min fair rates [n_flows] by progressive filling; `uses` is [n_ports, n_flows], flows without a port get 0."""
    rate, open_flows, left = np.zeros(uses.shape[1]), uses.any(axis=0), capacity.copy()
    while open_flows.any():
        users = (uses & open_flows).sum(axis=1)
        share = np.divide(left, users, out=np.full(len(left), np.inf), where=users > 0)
        tight = int(np.argmin(share))
        fixed = uses[tight] & open_flows
        rate[fixed] = share[tight]
        left = np.maximum(left - uses[:, fixed].sum(axis=1) * share[tight], 0.0)
        open_flows = open_flows & ~fixed
    return rate
