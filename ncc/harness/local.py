# SPDX-License-Identifier: BSD-3-Clause
"""Rate limits by a formula of what a host can know: itself now, its neighbours and the uplink as they last told.

It is what a learned policy is compared with: the same messages, as late and as often lost, and no network.
"""

from collections import deque
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.native import extension
from ncc.harness.oracles import areas

TURN_PERIODS = 256
"""Periods after which the next host is first among equals: longer than an incast lasts."""


class Local:
    """Limiter by `LocalLimit`'s constants: the hosts with less to send first, from messages of the period before.

    A host i compares its key, k_i bytes, with those that it heard of busy neighbours. The key is the payload left of
    its shortest flow, plus `attained_frac` of what the host has sent since it became busy. Those with less than
    k_i / `alike`, by more than their link carries in `slack_periods`, are before it; it is equal to those of which
    neither is before the other. Equal flows, such as the answers of an incast, must not all count as first. A flow that
    would end before a limit takes effect leaves nothing to wait for: without the slack the uplink would be idle part of
    the time.

    Of the capacity that a host may give away,

        C = (1 - headroom_frac) * uplink * clip(1 + queue_gain * (queue_periods - q), 0.3, 1.5),

    with q the uplink's queue in periods of its rate, those before it take what they can use (`claims`). Among
    equals a share `tie_frac` goes before by an index that moves on every `TURN_PERIODS`; the others are peers,

        limit_i = max((C - taken) / peers, floor_frac * C / busy).

    If less than `ahead_periods` * C is left to send before it, the host may send at its link's rate over its peers. In
    its first `hold_periods` periods it gets at most `hold_frac` * C, and while it is idle `idle_frac` of its link.

    One object decides for one network, or for many alike in hosts that are stepped together, each with constants of
    its own.

    Args:
        constants: fields of `ncc.harness.controller.LocalLimit` by name; numbers, or arrays [n_racks].
    """

    def __init__(self, **constants: Any) -> None:
        self._constants = {name: np.atleast_1d(np.asarray(each, np.float64)) for name, each in constants.items()}
        self._attained_frac = np.asarray(constants["attained_frac"])[..., None]
        self._compares_as_told = np.asarray(constants["tie_frac"])[..., None] > 0

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._areas, self._period_s = areas(scenario), scenario.period_s
        self._past: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=scenario.sharing_delay_periods + 1)
        self._busy_periods: Any = 0
        self._attained_bytes: Any = 0.0
        network = scenario.network()
        names = [network.nodes[host].name for host in network.agent_hosts]
        self._lies = np.isin(names, scenario.sharing_lying)
        self._speaks = ~np.isin(names, scenario.sharing_silent)
        self._loss_frac, self._rng = scenario.sharing_loss_frac, generator(seed, "messages")
        self._heard: tuple[FloatArray, FloatArray] | None = None

    def decide(self, measurement: Measurement | Measurements) -> FloatArray:
        """Limits in bits/s, [n_agents] or [n_racks, n_agents]; above 0, inf without one."""
        m, busy = measurement, measurement.queued_flows > 0
        self._busy_periods = np.where(busy, self._busy_periods + 1, 0)
        sent_bytes = m.throughput_bps * self._period_s / BITS_PER_BYTE
        self._attained_bytes = np.where(busy, self._attained_bytes + sent_bytes, 0.0)
        key_bytes = m.next_bytes + self._attained_frac * self._attained_bytes
        # In the order of local.cc.
        self._past.append(
            (np.stack([m.throughput_bps, m.rate_limit_bps, m.next_bytes, key_bytes, busy], -2), m.uplink_queue_bytes)
        )
        old, queue_bytes = self._past[0]
        # All rank one snapshot where ties are to be broken: with a newer key of its own everybody would be first.
        own_bytes = np.where(self._compares_as_told & (old[..., 4, :] > 0), old[..., 3, :], key_bytes)
        told, queue_bytes = self._hear(
            np.concatenate([old[..., :4, :], old[..., 4:, :] * ~self._lies], -2), queue_bytes
        )
        n = busy.shape[-1]
        limits = np.empty((busy.size // n, n))
        for number, (hosts, link_bps, uplink_bps) in enumerate(self._areas):
            extension("_local").limits(
                self._constants,
                number=number,
                hosts=hosts,
                link_bps=link_bps,
                uplink_bps=uplink_bps,
                period_s=self._period_s,
                turns=int(np.max(m.epoch)) // TURN_PERIODS,
                own=np.stack([own_bytes, self._busy_periods, busy]).reshape(3, -1, n).astype(np.float64),
                told=told.reshape(len(limits), -1, *told.shape[-2:]),
                queue=queue_bytes.reshape(len(limits), -1, queue_bytes.shape[-1]),
                limits=limits,
            )
        return limits.reshape(busy.shape)

    def _hear(self, told: FloatArray, queue_bytes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the last messages that came to each listener, on an axis of its own; at first all are idle."""
        told, queue_bytes = told[..., None, :, :], queue_bytes[..., None, :]
        if self._speaks.all() and not self._loss_frac:
            return told, queue_bytes
        n, queues = len(self._speaks), queue_bytes.shape[-1]
        drawn = self._rng.random((n, n + queues)) >= self._loss_frac
        before, queue_before = self._heard or (told * (np.arange(5) < 4)[:, None], np.zeros_like(queue_bytes))
        came = (drawn[:, :n] & self._speaks)[:, None, :]
        self._heard = np.where(came, told, before), np.where(drawn[:, n:], queue_bytes, queue_before)
        return self._heard


class ShortestFirst(Local):
    """`Local` with perfect knowledge: hosts know each other as they are now, whatever the scenario says of messages."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        super().reset(scenario.replace(sharing_loss_frac=0.0, sharing_silent=(), sharing_lying=()), seed)
        self._past = deque(maxlen=1)
