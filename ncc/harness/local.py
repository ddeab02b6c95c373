# SPDX-License-Identifier: BSD-3-Clause
"""The formula LOCAL: rate limits from a host's own state and the last messages of its neighbours and the uplink.

Learned policies are compared with it. It uses the same messages as they do, with the same delays and losses, but
nothing in it is learned.
"""

from collections import deque
from typing import Any

import numpy as np

from ncc.core.extras import load_extension
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.seeding import generator
from ncc.core.units import BITS_PER_BYTE
from ncc.harness.oracles import LOCAL_MODULE, areas

TURN_PERIODS = 256
"""Periods after which the next host becomes first among equal hosts: longer than an incast lasts."""


class Local:
    """A limiter that lets the hosts with the shortest flows send first, from the messages that hosts exchange.

    Host i has a key of k_i bytes: the payload left of its shortest flow, plus `attained_frac` times the bytes that it
    has sent since it became busy. It compares k_i with the keys in its busy neighbours' messages. A neighbour is before
    i if its key, plus the bytes that its link carries in `slack_periods`, is less than k_i / `alike`. Hosts are equal
    if neither is before the other: equal flows, such as the answers of an incast, must not all count as first. The
    slack is for flows that end before a limit takes effect. Waiting for them would leave the uplink idle.

    The capacity to share is

        C = (1 - headroom_frac) * uplink * clip(1 + queue_gain * (queue_periods - q), 0.3, 1.5),

    where q is the uplink's queue in periods of its rate. Hosts before i take the rates that they can use (`claims`).
    Of the hosts equal to i, one is first in an order that rotates every `TURN_PERIODS`, and the others follow in turn.
    An equal host earlier in this order counts as before i with weight `tie_frac`. Every equal host counts as a peer
    with weight 1 - `tie_frac`. Then

        limit_i = max((C - taken) / peers, floor_frac * C / busy),

    where `taken` is the sum of the rates taken, `peers` the number of peers and i itself, and `busy` the number of
    hosts with queued flows.

    If the next flows of the hosts before i have less left than C carries in `ahead_periods`, i may send at its link's
    rate divided by `peers`. In the first `hold_periods` periods after it became busy, i gets at most `hold_frac` * C.
    While it is idle, it gets `idle_frac` of its link's rate. A limit of the link's rate or more is no limit.

    One object decides for one network, or for several networks with equal hosts that are stepped together, each with
    its own constants.

    Args:
        constants: fields of `ncc.harness.controller.LocalLimit` by name; numbers, or arrays [n_racks].
    """

    def __init__(self, **constants: Any) -> None:
        self._constants = {name: np.atleast_1d(np.asarray(value, np.float64)) for name, value in constants.items()}
        self._attained_frac = np.asarray(constants["attained_frac"])[..., None]
        self._compares_delayed = np.asarray(constants["tie_frac"])[..., None] > 0

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._areas, self._period_s = areas(scenario), scenario.period_s
        self._past: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=scenario.sharing_delay_periods + 1)
        self._busy_periods: Any = 0
        self._attained_bytes: Any = 0.0
        network = scenario.network()
        names = [network.nodes[host].name for host in network.agent_hosts]
        self._lies = np.isin(names, scenario.sharing_lying)
        self._sends = ~np.isin(names, scenario.sharing_silent)
        self._loss_frac, self._rng = scenario.sharing_loss_frac, generator(seed, "messages")
        self._last_received: tuple[FloatArray, FloatArray] | None = None

    def decide(self, measurement: Measurement | Measurements) -> FloatArray:
        """Return limits in bits/s, [n_agents] or [n_racks, n_agents], above 0; inf means no limit."""
        m, busy = measurement, measurement.queued_flows > 0
        self._busy_periods = np.where(busy, self._busy_periods + 1, 0)
        sent_bytes = m.throughput_bps * self._period_s / BITS_PER_BYTE
        self._attained_bytes = np.where(busy, self._attained_bytes + sent_bytes, 0.0)
        key_bytes = m.next_bytes + self._attained_frac * self._attained_bytes
        # Rows in the order of local.cc.
        self._past.append(
            (np.stack([m.throughput_bps, m.rate_limit_bps, m.next_bytes, key_bytes, busy], -2), m.uplink_queue_bytes)
        )
        old, queue_bytes = self._past[0]
        # To break ties, all hosts must rank the same snapshot: with a newer key of its own, every host would be first.
        own_bytes = np.where(self._compares_delayed & (old[..., 4, :] > 0), old[..., 3, :], key_bytes)
        messages, queue_bytes = self._received(
            np.concatenate([old[..., :4, :], old[..., 4:, :] * ~self._lies], -2), queue_bytes
        )
        n = busy.shape[-1]
        limits = np.empty((busy.size // n, n))
        for number, (hosts, link_bps, uplink_bps) in enumerate(self._areas):
            load_extension(LOCAL_MODULE).limits(
                self._constants,
                number=number,
                hosts=hosts,
                link_bps=link_bps,
                uplink_bps=uplink_bps,
                period_s=self._period_s,
                turns=int(np.max(m.epoch)) // TURN_PERIODS,
                own=np.stack([own_bytes, self._busy_periods, busy]).reshape(3, -1, n).astype(np.float64),
                messages=messages.reshape(len(limits), -1, *messages.shape[-2:]),
                queue=queue_bytes.reshape(len(limits), -1, queue_bytes.shape[-1]),
                limits=limits,
            )
        return limits.reshape(busy.shape)

    def _received(self, sent: FloatArray, queue_bytes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the last messages that each host received: [..., hosts that receive, rows, hosts that send].

        The axis of receiving hosts has length 1 if all of them receive the same. Before its first message, a sender
        counts as idle.
        """
        sent, queue_bytes = sent[..., None, :, :], queue_bytes[..., None, :]
        if self._sends.all() and not self._loss_frac:
            return sent, queue_bytes
        n, queues = len(self._sends), queue_bytes.shape[-1]
        drawn = self._rng.random((n, n + queues)) >= self._loss_frac
        last, last_queue = self._last_received or (sent * (np.arange(5) < 4)[:, None], np.zeros_like(queue_bytes))
        arrived = (drawn[:, :n] & self._sends)[:, None, :]
        self._last_received = np.where(arrived, sent, last), np.where(drawn[:, n:], queue_bytes, last_queue)
        return self._last_received


class ShortestFirst(Local):
    """`Local` with perfect knowledge: hosts know each other's current state, whatever happens to messages."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        super().reset(scenario.replace(sharing_loss_frac=0.0, sharing_silent=(), sharing_lying=()), seed)
        self._past = deque(maxlen=1)
