# SPDX-License-Identifier: BSD-3-Clause
"""All neighbours of a host as a few numbers of equal meaning for any number of them, and whichever of them is which."""

import math
from typing import Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.envs.scales import scales_of
from ncc.envs.sharing import TOLD
from ncc.harness.batch import ObsArray
from ncc.harness.oracles import ALIKE, GROWTH, HELD_FRAC, SLACK_PERIODS, START_FRAC, claims

NEIGHBOUR = ("throughput", "mean_wait", "queued_bytes")
POOLED = (*(f"{name} {way}" for way in ("mean", "max") for name in NEIGHBOUR), "busy share", "fair share")
"""Busy are those with queued flows; fair is what the upper port has for each of them and the host itself."""
BUSY, FAIR = POOLED.index("busy share"), POOLED.index("fair share")
RANKED = (
    "next bytes",
    "next bytes before",
    "queued flows before",
    "room after much shorter",
    "room after shorter",
    "share among alike",
    "static share",
    "period",
    "buffer",
)
"""`next bytes` is what is left of the host's shortest queued flow, now and when neighbours are seen; room is what
neighbours whose next flow is (much) shorter leave of the upper port; the rest is constant. Much shorter, alike and what
those take are as for `ncc.harness.oracles.ShortestFirst`."""
FLOWS_BEFORE, SHARE = RANKED.index("queued flows before"), RANKED.index("share among alike")
CONTEXT_SCALE = 100.0


class Pool:
    """`POOLED` of every host, from columns of the observer's vector.

    Args:
        scenario: whose hosts.
        at: where each column lies in the vector.
    """

    size = len(POOLED)

    def __init__(self, scenario: Scenario, at: dict[str, slice], next_scale: float) -> None:
        scales = scales_of(scenario)
        self._near, self._area = scales.neighbours, scales.area
        starts = [at[name].start for name in TOLD]
        self._index = np.stack([start + self._near for start in starts], axis=-1)  # [n_agents, neighbours, 6]
        self._share = (scales.upper_capacity_bps[scales.area] / scales.link_rate_bps).astype(np.float32)

    def tables(self) -> dict[str, Any]:
        """What it is made of, for `SharedObserver.tables`."""
        return {"area": self._area, "near": self._near, "share": self._share, "ranks": None}

    def told(self, state: ObsArray) -> ObsArray:
        """[..., n_agents, neighbours, 6] what neighbours tell of themselves, from states [..., size]."""
        return state.take(self._index, axis=-1)

    def of(self, near: ObsArray, now: ObsArray, before: ObsArray) -> ObsArray:
        """[..., n_agents, 8].

        Args:
            near: `ncc.envs.sharing.TOLD`, as from `told`.
            now: [..., size] the own state, and
            before: what it was when neighbours were seen.
        """
        lead, n = near.shape[:-2], self._near.shape[1]
        if not n:
            nobody = np.zeros((*lead, len(POOLED)), dtype=np.float32)
            nobody[..., FAIR] = np.minimum(self._share, 1)
            return nobody
        three = near[..., : len(NEIGHBOUR)]
        busy = np.count_nonzero(near[..., 3] > 0, axis=-1)
        ends = np.stack((busy / n, np.minimum(self._share / (1 + busy), 1)), axis=-1)
        pooled: ObsArray = np.concatenate((three.mean(axis=-2), three.max(axis=-2), ends), axis=-1, dtype=np.float32)
        return pooled


class Ranked(Pool):
    """`POOLED` and `RANKED`: also how a host's next flow compares with its neighbours'."""

    size = len(POOLED) + len(RANKED)

    def __init__(self, scenario: Scenario, at: dict[str, slice], next_scale: float) -> None:
        super().__init__(scenario, at, next_scale)
        scales = scales_of(scenario)
        self._gain, n = math.log1p(next_scale), scales.n_agents
        self._next, self._flows = at["next"].start + np.arange(n), at["flows"].start + np.arange(n)
        own_bps = scales.link_rate_bps
        self._links = (own_bps[self._near] / own_bps[:, None]).astype(np.float32)
        peers, upper_bps = self._near.shape[1] + 1, scales.upper_rate_bps[scales.area]
        static = 1 + np.log(np.minimum(scales.upper_capacity_bps[scales.area] / (peers * own_bps), 1)) / math.log(
            CONTEXT_SCALE
        )
        period = np.log1p(scenario.period_s / scales.base_rtt_s) / math.log1p(CONTEXT_SCALE)
        buffered = scales.upper_buffer_bytes[scales.area] * BITS_PER_BYTE / (upper_bps * scenario.period_s)
        buffer = np.log1p(buffered) / math.log1p(CONTEXT_SCALE)
        self._context: ObsArray = np.stack((static, period, buffer), axis=-1).astype(np.float32)

    def tables(self) -> dict[str, Any]:
        rules = {"gain": self._gain, "alike": ALIKE, "slack": SLACK_PERIODS}
        taking = {"held": HELD_FRAC, "growth": GROWTH, "start": START_FRAC}
        return super().tables() | {"ranks": {**rules, **taking, "links": self._links, "context": self._context}}

    def of(self, near: ObsArray, now: ObsArray, before: ObsArray) -> ObsArray:
        mine = now.take(self._next, axis=-1)
        left: FloatArray = np.expm1(mine * self._gain)[..., None]
        theirs = np.expm1(near[..., 4] * self._gain) * self._links  # in what the host's own link carries in a period
        busy, slack = near[..., 3] > 0, SLACK_PERIODS * self._links
        much = busy & (theirs + slack < left / ALIKE)
        alike = busy & ~much & (theirs <= (left + SLACK_PERIODS) * ALIKE)
        claimed = claims(near[..., 0], near[..., 5], np.ones_like(self._links)) * self._links
        room = np.maximum(self._share - (much * claimed).sum(axis=-1), 0)
        behind = np.maximum(self._share - ((busy & (theirs < left)) * claimed).sum(axis=-1), 0)
        ranks = np.minimum((room, behind, room / (1 + alike.sum(axis=-1))), 1)
        own = (mine, before.take(self._next, axis=-1), before.take(self._flows, axis=-1))
        context = np.broadcast_to(self._context, (*mine.shape, self._context.shape[-1]))
        parts = (super().of(near, now, before), np.stack((*own, *ranks), axis=-1), context)
        seen: ObsArray = np.concatenate(parts, axis=-1, dtype=np.float32)
        return seen
