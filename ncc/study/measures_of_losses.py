# SPDX-License-Identifier: BSD-3-Clause
"""Measures of loss: the rate of loss events at a port, and windows compared with the response functions of RFCs."""

import math
from typing import ClassVar, Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.metrics.catalogue import Better, Metric
from ncc.study.measures_base import AtPort, Hosts, MeasuredRun, Windowed

EPISODE_RTTS = 2.0
"""Round trips between two drops above which a new loss event begins: a controller reacts once per window of data."""


class LossEvents(Windowed, frozen=True, kw_only=True):
    """Base of measures over the time from the first to the last loss event of an uplink in the window."""

    def loss_events(self, seen: MeasuredRun, area: int) -> IntArray:
        """Indices of the window's periods in which a loss event begins: a drop, after `EPISODE_RTTS` without drops."""
        epochs = seen.run.epochs
        dropped = np.flatnonzero(epochs.columns["uplink_dropped_pkts"][:, area])
        hosts = [seen.network.agent_hosts.index(host) for host in seen.network.neighbourhoods[area].hosts]
        rtt_s = epochs.columns["rtt_s"][dropped][:, hosts].mean(axis=1)
        begins = dropped[np.diff(epochs.time_s[dropped], prepend=-np.inf) > EPISODE_RTTS * rtt_s]
        return np.asarray(begins[self.window(seen)[begins]])

    def loss_rate(self, seen: MeasuredRun, area: int) -> float:
        """Loss events per packet that left the port, from the first event to the last; NaN for less than two events."""
        begins = self.loss_events(seen, area)
        if len(begins) < 2:
            return math.nan
        sent_bps = seen.run.epochs.columns["uplink_throughput_bps"][begins[0] : begins[-1], area]
        scenario = seen.run.scenario
        sent_pkts = sent_bps.sum() * scenario.period_s / (BITS_PER_BYTE * scenario.transport.mtu_bytes)
        return float((len(begins) - 1) / sent_pkts)


class LossRate(AtPort, LossEvents, frozen=True, kw_only=True, tag="loss_rate"):
    """Loss events per packet that leaves a port. For a single flow it is the loss rate p of response functions."""

    SHOWN: ClassVar[Metric] = Metric("", "", "", Better.NEITHER, 1.0, 8)

    def of(self, seen: MeasuredRun) -> float:
        return self.loss_rate(seen, self.area(seen))


class Response(Hosts, LossEvents, frozen=True, kw_only=True, tag="response"):
    """Mean window of a single sender, divided by the window that a response function gives for its RTT and loss rate p.

    Windows are in packets. The function `reno` is sqrt(3 / (2 p)) (RFC 9438 section 4.3 and RFC 8312 table 1). The
    function `cubic` is the larger of that and (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4) with C = 0.4 and
    beta = 0.7 (RFC 9438 section 5), as in the RFC's tables. Means are from the first to the last loss event; with less
    than two, the result is NaN.
    """

    law: Literal["reno", "cubic"]
    """Response function."""

    def fits(self, where: str, scenario: Scenario) -> None:
        super().fits(where, scenario)
        if (n := len(self.chosen(scenario.network()))) != 1:
            raise ConfigError(f"{where}.hosts must be one host (set count: 1), because losses are of one flow, got {n}")

    def of(self, seen: MeasuredRun) -> float:
        (host,) = self.chosen(seen.network)
        area = next(i for i, area in enumerate(seen.network.neighbourhoods) if host in area.hosts)
        begins = self.loss_events(seen, area)
        if len(begins) < 2:
            return math.nan
        periods = slice(begins[0], begins[-1])
        pkts, goodput_bps = self.in_flight_pkts(seen)[periods], self.goodput_bps(seen)[periods]
        payload_bits = BITS_PER_BYTE * seen.run.scenario.transport.mss_bytes
        rtt_s = pkts.sum() * payload_bits / goodput_bps.sum()
        p = self.loss_rate(seen, area)
        expected = math.sqrt(1.5 / p)
        if self.law == "cubic":
            expected = max(expected, (0.4 * 3.7 / 1.2) ** 0.25 * (rtt_s / p) ** 0.75)
        return float(pkts.mean() / expected)
