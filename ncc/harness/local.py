# SPDX-License-Identifier: BSD-3-Clause
"""Rate limits by a formula of what a host can know: itself now, its neighbours and the uplink as they last told.

It is what a learned policy is compared with: the same messages, as late and as often lost, and no network.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.oracles import areas, claims

LEAST_FRAC, MOST_FRAC = 0.3, 1.5
"""Bounds of the share of the uplink that queue feedback leaves to give away."""
TURN_PERIODS = 256
"""Periods after which the next host is first among equals: longer than an incast lasts."""


@dataclass(frozen=True)
class _State:
    """The state of hosts and uplinks in an epoch.

    Arrays are [..., n_agents], and as others hear them [..., 1 or n_agents, n_agents], a row per listener; of the
    queues the last axis is [n_neighbourhoods].
    """

    sent_bps: FloatArray
    limit_bps: FloatArray
    next_bytes: FloatArray
    key_bytes: FloatArray
    busy: BoolArray
    queue_bytes: FloatArray

    def heard(self, before: "_State", arrives: BoolArray, uplink_arrives: BoolArray) -> "_State":
        """The state after messages of which some did not arrive."""
        came = {name: uplink_arrives if name == "queue_bytes" else arrives for name in self.__dict__}
        return _State(
            **{name: np.where(came[name], value, getattr(before, name)) for name, value in vars(self).items()}
        )

    def listened(self) -> "_State":
        """The same with an axis of listeners, for all of whom it is alike."""
        return _State(**{name: value[..., None, :] for name, value in vars(self).items()})


class Local:
    """Limiter by `LocalLimit`'s constants: the hosts with less to send first, from messages of the period before.

    A host i compares its key, k_i bytes, with those that it heard of busy neighbours, as `ShortestFirst` does with
    perfect knowledge. The key is the payload left of its shortest flow, plus `attained_frac` of what the host has sent
    since it became busy. Of the capacity that it may give away,

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
        self._is = {name: np.asarray(value)[..., None, None] for name, value in constants.items()}

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._areas, self._period_s = areas(scenario), scenario.period_s
        self._past: deque[_State] = deque(maxlen=scenario.sharing_delay_periods + 1)
        self._busy_periods: Any = 0
        self._attained_bytes: Any = 0.0
        network = scenario.network()
        names = [network.nodes[host].name for host in network.agent_hosts]
        self._lies = np.isin(names, scenario.sharing_lying)
        self._speaks = ~np.isin(names, scenario.sharing_silent)
        self._loss_frac, self._rng = scenario.sharing_loss_frac, generator(seed, "messages")
        self._heard: _State | None = None

    def decide(self, measurement: Measurement | Measurements) -> FloatArray:
        """Limits in bits/s, [n_agents] or [n_racks, n_agents]; above 0, inf without one."""
        m, busy = measurement, measurement.queued_flows > 0
        self._busy_periods = np.where(busy, self._busy_periods + 1, 0)
        sent_bytes = m.throughput_bps * self._period_s / BITS_PER_BYTE
        self._attained_bytes = np.where(busy, self._attained_bytes + sent_bytes, 0.0)
        weighed = self._is["attained_frac"][..., 0] * self._attained_bytes
        now = _State(
            m.throughput_bps, m.rate_limit_bps, m.next_bytes, m.next_bytes + weighed, busy, m.uplink_queue_bytes
        )
        self._past.append(now)
        old = self._past[0]
        heard = self._hear(replace(old, busy=old.busy & ~self._lies).listened())
        turn = int(np.max(m.epoch)) // TURN_PERIODS
        limits = np.full(busy.shape, np.inf)
        for number, (hosts, _, _) in enumerate(self._areas):
            limits[..., hosts] = self._area(number, now, old, heard, turn)
        return limits

    def _hear(self, told: _State) -> _State:
        """The state as each listener has it: the last message that arrived, at first that of an idle network."""
        if self._speaks.all() and not self._loss_frac:
            return told
        n, queues = len(self._speaks), told.queue_bytes.shape[-1]
        drawn = self._rng.random((n, n + queues)) >= self._loss_frac
        before = self._heard or replace(
            told, busy=np.zeros_like(told.busy), queue_bytes=np.zeros_like(told.queue_bytes)
        )
        self._heard = told.heard(before, drawn[:, :n] & self._speaks, drawn[:, n:])
        return self._heard

    def _area(self, number: int, now: _State, old: _State, heard: _State, turn: int) -> FloatArray:
        """Limits of one neighbourhood's hosts, [..., n]; arrays below are [..., listeners, neighbours]."""
        hosts, link_bps, uplink_bps = self._areas[number]
        c, link, n = self._is, link_bps[:, None], len(hosts)

        def theirs(column: NDArray[Any], of: IntArray = hosts) -> NDArray[Any]:
            seen = column[..., of]
            return seen if seen.shape[-2] == 1 else seen[..., hosts, :]  # alike for all listeners, or a row for each

        def mine(column: NDArray[Any]) -> NDArray[Any]:
            return column[..., hosts, None]

        queued_periods = theirs(heard.queue_bytes, np.array([number])) * BITS_PER_BYTE / (uplink_bps * self._period_s)
        fed_back = np.clip(1 + c["queue_gain"] * (c["queue_periods"] - queued_periods), LEAST_FRAC, MOST_FRAC)
        capacity_bps = (1 - c["headroom_frac"]) * uplink_bps * fed_back
        # All rank one snapshot where ties are to be broken: with a newer key of its own everybody would be first.
        snapshot = (c["tie_frac"] > 0) & mine(old.busy)
        my_key = np.where(snapshot, mine(old.key_bytes), mine(now.key_bytes))
        key, slack = theirs(heard.key_bytes), c["slack_periods"] * link * self._period_s / BITS_PER_BYTE
        others = theirs(heard.busy) & ~np.eye(n, dtype=np.bool_)
        first = others & (key + slack < my_key / c["alike"])
        same = others & ~first & ~(my_key + slack < key / c["alike"])
        place = (np.arange(n) - turn) % n
        before = first + c["tie_frac"] * (same & (place < place[:, None]))
        claimed = claims(theirs(heard.sent_bps), theirs(heard.limit_bps), link_bps)
        taken_bps = (before * claimed).sum(-1, keepdims=True)
        ahead_bytes = (before * theirs(heard.next_bytes)).sum(-1, keepdims=True)
        peers = 1 + (1 - c["tie_frac"]) * same.sum(-1, keepdims=True)
        fair_bps = capacity_bps / (1 + others.sum(-1, keepdims=True))
        share = np.maximum(np.maximum(capacity_bps - taken_bps, 0) / peers, c["floor_frac"] * fair_bps)
        let_in = ahead_bytes * BITS_PER_BYTE < c["ahead_periods"] * self._period_s * capacity_bps
        share = np.where(let_in, np.maximum(share, link / peers), share)
        fresh = mine(self._busy_periods) <= c["hold_periods"]
        share = np.where(fresh, np.minimum(share, c["hold_frac"] * capacity_bps), share)
        idle = np.where(c["idle_frac"] < 1, c["idle_frac"] * link, np.inf)
        limits: FloatArray = np.where(mine(now.busy), np.where(share < link, share, np.inf), idle)[..., 0]
        return limits
