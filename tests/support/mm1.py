# SPDX-License-Identifier: BSD-3-Clause
"""An analytic datapath: the paper's M/M/1 model of a rack, exact and instant, to test whatever sits on a datapath."""

from dataclasses import replace

import numpy as np

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray, PortRecords, records
from ncc.core.measurement import Measurement, idle
from ncc.core.scenario import Scenario
from ncc.core.signals import SIGNALS, names
from ncc.envs.scales import scales_of
from ncc.harness.datapath import HostStack, Records

LOAD_MAX = 0.99
"""Delay stops growing here, as a finite buffer would have it."""


class Mm1Datapath:
    """Fluid hosts behind the uplink of their neighbourhood, of rate C.

    An epoch: host n sends x_n = min(limit, link rate, what it has); if sum x > C all are served in proportion. Every
    RTT of the neighbourhood is base / (1 - load), load = min(sum x / C, `LOAD_MAX`): the paper's d = 1/(C - sum x)
    in units in which an empty network shows the base RTT. Headers weigh nothing, so goodput is throughput.

    Args:
        backlogged: hosts send all the time and the flows given are ignored; otherwise each host delivers its flows
            in order of arrival, and what arrives in an epoch may leave in it.
    """

    name = "mm1"

    def __init__(self, *, backlogged: bool = True) -> None:
        self._backlogged = backlogged
        self._epoch = -1

    def transports(self) -> tuple[str, ...]:
        return ("dctcp",)

    def start(self, scenario: Scenario, flows: FlowTable, stack: HostStack, seed: int) -> Measurement:
        if stack.transport not in self.transports():
            raise UnknownNameError("transport", stack.transport, self.transports())
        network = scenario.network()
        self._scenario, self._scales, self._flows = scenario, scales_of(scenario), flows
        self._n_ports = 2 * len(network.links)
        agent = {host: i for i, host in enumerate(network.agent_hosts)}
        self._sender = np.array([agent.get(int(host), -1) for host in flows.src], dtype=np.int64)
        self._mine = self._sender >= 0
        self._end_bits = np.zeros(len(flows))
        for i in range(self._scales.n_agents):
            own = self._sender == i
            self._end_bits[own] = np.cumsum(8.0 * flows.size_bytes[own])
        self._finish_s = np.full(len(flows), np.nan)
        self._sent_bits = np.zeros(self._scales.n_agents)
        self._rtt_s = self._scales.base_rtt_s.copy()
        self._epoch = 0
        idle = np.zeros(self._scales.n_agents)
        return self._measure(np.full(self._scales.n_agents, np.inf), idle, np.zeros(len(self._scales.uplink_rate_bps)))

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        if self._epoch < 0:
            raise DatapathError("mm1: start a run before stepping it")
        scales, period = self._scales, self._scenario.period_s
        limits = np.asarray(rate_limits_bps, dtype=np.float64)
        if limits.shape != (scales.n_agents,) or not (limits > 0).all():
            raise ConfigError(f"mm1: rate limits must be {scales.n_agents} numbers above 0, got {limits}")
        self._epoch += 1
        x = np.minimum(limits, scales.link_rate_bps)
        if not self._backlogged:
            x = np.minimum(x, (self._arrived_bits() - self._sent_bits) / period)
        load = _sum(scales.area, x, len(scales.uplink_rate_bps)) / scales.uplink_rate_bps
        x = x / np.maximum(load, 1)[scales.area]
        carried = np.minimum(load, LOAD_MAX)
        sending = _sum(scales.area, x, len(carried))[scales.area] > 0
        self._rtt_s = np.where(sending, scales.base_rtt_s / (1 - carried[scales.area]), self._rtt_s)
        self._sent_bits += x * period
        # Half a bit of slack: sums of x * period round differently from sums of sizes.
        done = self._mine & (self._sent_bits[self._sender] > self._end_bits - 0.5) & (self._flows.start_s < self._now())
        self._finish_s[done & np.isnan(self._finish_s)] = self._now()
        return self._measure(limits, x, carried)

    def finish(self) -> Records:
        none = np.zeros(len(self._flows), dtype=np.int64)
        counts = dict.fromkeys(("sent_pkts", "retransmitted_pkts", "timeouts", "ce_pkts"), none)
        ports = {
            name: np.zeros(self._n_ports, np.int64 if SIGNALS[name].count else np.float64) for name in names("port")
        }
        return Records(
            flows=records(FlowRecords, finish_s=self._finish_s.copy(), **counts), ports=records(PortRecords, **ports)
        )

    def close(self) -> None:
        self._epoch = -1

    def _now(self) -> float:
        return self._epoch * self._scenario.period_s

    def _arrived(self) -> np.ndarray:
        return self._mine & (self._flows.start_s < self._now())

    def _arrived_bits(self) -> FloatArray:
        here = self._arrived()
        return _sum(self._sender[here], 8.0 * self._flows.size_bytes[here], self._scales.n_agents)

    def _measure(self, limits: FloatArray, x: FloatArray, load: FloatArray) -> Measurement:
        n, period = self._scales.n_agents, self._scenario.period_s
        if self._backlogged:
            active, queued_bytes, waiting = np.ones(n, dtype=np.int64), np.full(n, 1e6), np.full(n, period)
        else:
            open_flows = self._arrived() & np.isnan(self._finish_s)
            active = np.bincount(self._sender[open_flows], minlength=n)
            queued_bytes = np.maximum(self._arrived_bits() - self._sent_bits, 0) / 8
            waiting = _sum(self._sender[open_flows], self._now() - self._flows.start_s[open_flows], n)
        queue = load / (1 - load) * self._scenario.transport.mtu_bytes
        return replace(
            idle(n, len(load)),
            time_s=self._now(),
            epoch=self._epoch,
            rate_limit_bps=limits.copy(),
            throughput_bps=x,
            goodput_bps=x.copy(),
            rtt_s=self._rtt_s.copy(),
            rtt_samples=(x > 0).astype(np.int64),
            wait_s=waiting,
            queued_bytes=queued_bytes,
            next_bytes=queued_bytes / np.maximum(active, 1),
            active_left=active.astype(np.float64),
            queued_flows=active.copy(),
            active_flows=active,
            uplink_throughput_bps=_sum(self._scales.area, x, len(load)),
            uplink_queue_bytes=queue,
            uplink_queue_mean_bytes=queue.copy(),
            uplink_queue_delay_s=queue * 8 / self._scales.uplink_rate_bps,
            flows_started=int(self._arrived().sum()),
            flows_finished=int(np.isfinite(self._finish_s).sum()),
        )


def _sum(index: IntArray, values: FloatArray, n: int) -> FloatArray:
    """[n] sums of `values` by index."""
    return np.bincount(index, values, n).astype(np.float64)
