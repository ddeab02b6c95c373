# SPDX-License-Identifier: BSD-3-Clause
"""What a host sees each epoch: itself, its neighbours and the upper node (wang2021 section 5.3.1.2)."""

import math
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.core.value import Positive, Value
from ncc.envs.pooling import BUSY, FAIR, FLOWS_BEFORE, NEIGHBOUR, POOLED, SHARE, Pool, Ranked
from ncc.envs.scales import scales_of
from ncc.envs.sharing import Mailbox, reliable
from ncc.harness.batch import ObsArray

OWN = ("rate_limit", "rtt", "goodput", "wait", "queued_bytes", "queued_flows")
"""b, d_b, g, d_q, s_q, f_q"""
UPPER = ("throughput", "queue")
AGE_SCALE = 100.0
"""Periods."""
POOLED_AGES = 3
LOW, HIGH = -1.0, 3.0
"""Every entry is clipped to this range."""


_POOLS: dict[str, type[Pool]] = {"pooled": Pool, "ranked": Ranked}


class ObservationSpec(Value, frozen=True):
    """How measurements become numbers near [0, 1].

    Rates are divided by the line rate of their port (no limit counts as 1). Everything that spans decades is
    ln(1 + value/unit) / ln(1 + scale): 0 at nothing, 1 at `scale` units, and then slowly more.

    | entry | value | unit | scale |
    |---|---|---|---|
    | rtt | RTT above base RTT | base RTT (`Scales.base_rtt_s`) | `rtt_scale` |
    | wait, mean_wait | waiting time, sum or mean over queued flows | period | `wait_scale` |
    | queued_bytes, next bytes | payload not yet sent | what the host's link carries in a period | `backlog_scale` |
    | queued_flows | flows not yet sent | 1 | `flows_scale` |
    | queue | bytes waiting in the upper port | MTU | its buffer in MTUs, so 1 is a full buffer |

    `neighbours` says how they are seen. ``each``: one after the other, as in the paper; a policy then fits
    neighbourhoods of one size. ``pooled``: `POOLED`, mean and maximum over them, the share of them that is busy, and
    what the upper port has for each busy one and the host itself, over the host's link rate: of equal meaning for any
    number of hosts, and whichever of them is which. ``ranked``: those and `RANKED`, how the host's shortest queued flow
    compares with theirs. ``none``: not at all, the upper node apart.

    `ages` adds how old what was heard of each neighbour and of the upper node is, beyond the delay of sharing: ln(1 +
    periods) / ln(1 + 100), or of pooled neighbours the mean and the maximum, and the upper node's. Of use where
    messages get lost (`Scenario.sharing_loss_frac`).
    """

    neighbours: Literal["each", "pooled", "ranked", "none"] = "each"
    ages: bool = False

    rtt_scale: Positive = 20.0
    wait_scale: Positive = 100.0
    backlog_scale: Positive = 100.0
    flows_scale: Annotated[float, Meta(ge=1)] = 30.0
    ceiling: Annotated[float, Meta(ge=LOW, le=HIGH)] = HIGH
    """What is larger is shown as this: 1 hides by how much a `scale` is exceeded, which training may never have met.
    Neighbours are ranked by what they really told."""


class SharedObserver:
    """An `Observer`: own state now; neighbours and upper node `Scenario.sharing_delay_periods` epochs old.

    Row n of an observation is, for host n: `OWN`, then `NEIGHBOUR` for each host around its neighbourhood (n+1, n+2,
    ..., n-1), then `UPPER`: 6 + 3 (N - 1) + 2 numbers, 53 for 16 hosts. With pooled neighbours it is `OWN`, `UPPER` and
    `POOLED`: 16 numbers for any N (`POOLED` is 0 for a host without neighbours); ranked, 25 with `RANKED`. Until the
    delay has passed, others are seen as in the first measurement, when nothing had been sent. Feed every measurement
    exactly once, in order.

    Reset for several racks it takes `Measurements` and gives each rack what an observer of its own would; `restart`
    begins one of them anew.
    """

    def __init__(self, spec: ObservationSpec) -> None:
        self.spec = spec

    def reset(self, scenario: Scenario, racks: range | None = None, *, seed: int = 0) -> None:
        """Forget the past.

        Args:
            scenario: whose hosts are observed.
            racks: numbers of the racks observed together, for a leading axis; None: one, without that axis.
            seed: decides which messages get lost, if any do; of several racks, `restart` is given each one's.

        Raises:
            ConfigError: neighbourhoods of different sizes.
        """
        scales = scales_of(scenario)
        n, areas = scales.n_agents, len(scales.upper_rate_bps)
        self.obs_dim = obs_dim(self.spec, scenario)
        self._link_bps = scales.link_rate_bps
        # One vector holds a measurement: linear columns first, so that the logarithm takes one slice.
        columns = {"limit": n, "goodput": n, "throughput": n, "upper": areas}
        columns |= {"rtt": n, "wait": n, "mean_wait": n, "bytes": n, "next": n, "flows": n, "queue": areas}
        ends = np.cumsum(list(columns.values()))
        at = {name: slice(end - size, end) for (name, size), end in zip(columns.items(), ends, strict=True)}
        size, lead = int(ends[-1]), () if racks is None else (len(racks),)
        self._racks, self._at, self._raw = racks, at, np.zeros((*lead, size))
        logarithmic = slice(at["rtt"].start, None)
        unit, gain = _units(self.spec, scenario, at)
        # ln(1 + value), where the RTT above base is RTT / base - 1.
        offset = np.zeros(size)
        offset[logarithmic] = 1
        offset[at["rtt"]] = 0
        least, most = np.full(size, LOW), np.full(size, HIGH)
        for bound in (least, most):
            bound[logarithmic] = np.exp(bound[logarithmic] / gain[logarithmic])
        # For every rack, as arrays of one shape are the fastest to multiply.
        constants = (unit, offset, least, most, gain, np.ones(n))
        self._constants = [np.broadcast_to(row, (*lead, len(row))).copy() for row in constants]
        self._delay, self._seen = scenario.sharing_delay_periods, 0
        self._ring = np.zeros((*lead, self._delay + 1, size), dtype=np.float32)
        self._flat = self._ring.reshape(*lead, -1)
        self._index = list(_index(self.spec, scenario, at, self._delay + 1))
        pool = _POOLS.get(self.spec.neighbours)
        self._pool = None if pool is None else pool(scenario, at, self.spec.backlog_scale)
        self._own, self._seed = _own_index(scenario, at), seed
        # Where all arrives, what others were is read from the ring.
        self._mail = None if reliable(scenario) and not self.spec.ages else Mailbox(scenario, at, lead)

    def observe(self, measurement: Measurement | Measurements) -> ObsArray:
        """A new array [n_agents, obs_dim] of float32 in [`LOW`, `HIGH`], or [n_racks, n_agents, obs_dim].

        Raises:
            DatapathError: a measured number is not finite.
        """
        self._normalise(measurement, self._raw, self._constants)
        slot = self._seen % (self._delay + 1)
        if self._seen == 0:
            self._ring[:] = self._raw[..., None, :]
        self._ring[..., slot, :] = self._raw
        self._seen += 1
        if self._mail is None:
            return self._seen_from(slot, self._flat)
        if self._seen == 1 and self._racks is None:
            self._mail.begin(self._ring[slot], self._seed)
        else:
            self._mail.deliver(self._ring[..., (slot + 1) % (self._delay + 1), :])
        mail, oldest = self._mail, (slot + 1) % (self._delay + 1)
        return self._heard(self._ring[..., slot, :], self._ring[..., oldest, :], mail.near, mail.upper, mail.age)

    def restart(self, row: int, measurement: Measurement, *, seed: int = 0) -> ObsArray:
        """Begin one of several racks anew with its first measurement; returns its [n_agents, obs_dim].

        Raises:
            DatapathError: a measured number is not finite.
        """
        raw = self._raw[row]
        self._normalise(measurement, raw, [rows[row] for rows in self._constants])
        self._ring[row] = raw  # all its slots, so it does not matter which of them is the newest
        self._seen = max(self._seen, 1)
        if self._mail is not None:
            mail, state = self._mail, self._ring[row, 0]
            mail.begin(state, seed, row)
            return self._heard(state, state, mail.near[row], mail.upper[row], mail.age[row])
        return self._seen_from((self._seen - 1) % (self._delay + 1), self._flat[row])

    def tables(self) -> dict[str, Any] | None:
        """What a host's numbers are made of, by name, for `ncc.envs.linux.decide`, which makes them in one call.

        None where that has no equal: neighbours that are not pooled, ages, messages that get lost, several racks.
        """
        if self._racks is not None or self._mail is not None or self._pool is None:
            return None
        names = ("unit", "offset", "least", "most", "gain")
        return {
            **dict(zip(names, self._constants[: len(names)], strict=True)),
            "areas": int(self._at["queue"].stop - self._at["queue"].start),
            "link_bps": self._link_bps,
            "ceiling": self.spec.ceiling,
            "delay": self._delay,
            **self._pool.tables(),
        }

    def _seen_from(self, newest: int, flat: ObsArray) -> ObsArray:
        obs: ObsArray = flat.take(self._index[newest], axis=-1)
        if self._pool is None:
            return self._cut(obs)
        # A ring of delay + 1 slots: the oldest is the one after the newest.
        size, oldest = self._raw.shape[-1], (newest + 1) % (self._delay + 1)
        before = flat[..., oldest * size : (oldest + 1) * size]
        others = self._pool.of(self._pool.told(before), flat[..., newest * size : (newest + 1) * size], before)
        return self._cut(np.concatenate((obs, others), axis=-1))

    def _cut(self, obs: ObsArray) -> ObsArray:
        return obs if self.spec.ceiling == HIGH else np.minimum(obs, np.float32(self.spec.ceiling), out=obs)

    def _heard(self, now: ObsArray, before: ObsArray, near: ObsArray, upper: ObsArray, age: IntArray) -> ObsArray:
        """From the own state [..., size], now and when neighbours are seen, and what is in the mailbox."""
        own = now.take(self._own, axis=-1)
        lead = own.shape[:-1]
        if self._pool is None:
            told = near[..., : len(NEIGHBOUR)] if self.spec.neighbours == "each" else near[..., :0]
            parts = [own, told.reshape(*lead, -1), upper]
        else:
            parts = [own, upper, self._pool.of(near, now, before)]
        if self.spec.ages:
            old = np.minimum(np.log1p(age) / math.log1p(AGE_SCALE), HIGH)
            if self.spec.neighbours == "none":
                old = old[..., -1:]
            elif self._pool is not None:
                others = old[..., :-1] if age.shape[-1] > 1 else np.zeros((*lead, 1))
                old = np.stack((others.mean(axis=-1), others.max(axis=-1), old[..., -1]), axis=-1)
            parts.append(old)
        return self._cut(np.concatenate(parts, axis=-1, dtype=np.float32))

    def _normalise(self, m: Measurement | Measurements, raw: FloatArray, constants: list[FloatArray]) -> None:
        # Right after a simulator's step this code is cold, and every *kind* of numpy call costs microseconds the first
        # time: so few kinds, on whole vectors of one type.
        unit, offset, least, most, gain, ones = constants
        log, mean_wait = raw[..., self._at["rtt"].start :], raw[..., self._at["mean_wait"]]
        np.concatenate(
            (
                np.minimum(m.rate_limit_bps, self._link_bps),
                m.goodput_bps,
                m.throughput_bps,
                m.upper_throughput_bps,
                m.rtt_s,
                m.wait_s,
                m.wait_s,  # to be divided below
                m.queued_bytes,
                m.next_bytes,
                m.queued_flows,
                m.upper_queue_bytes,
            ),
            axis=-1,
            out=raw,
        )
        np.divide(mean_wait, np.maximum(raw[..., self._at["flows"]], ones), out=mean_wait)
        np.add(np.multiply(raw, unit, out=raw), offset, out=raw)
        if not math.isfinite(np.vdot(raw, raw)):
            raise DatapathError(_blame(m, self._racks))
        # Clipped before the logarithm, which then stays finite: a path may be shorter than the base RTT.
        np.maximum(np.minimum(raw, most, out=raw), least, out=raw)
        np.log(log, out=log)
        np.multiply(raw, gain, out=raw)


def _units(spec: ObservationSpec, scenario: Scenario, at: dict[str, slice]) -> tuple[FloatArray, FloatArray]:
    """Factors before and after the logarithm for every number of the vector."""
    scales = scales_of(scenario)
    unit, gain = np.ones(at["queue"].stop), np.ones(at["queue"].stop)
    for name in ("limit", "goodput", "throughput"):
        unit[at[name]] = 1 / scales.link_rate_bps
    unit[at["upper"]] = 1 / scales.upper_rate_bps
    unit[at["rtt"]], gain[at["rtt"]] = 1 / scales.base_rtt_s, 1 / np.log1p(spec.rtt_scale)
    for name in ("wait", "mean_wait"):
        unit[at[name]], gain[at[name]] = 1 / scenario.period_s, 1 / np.log1p(spec.wait_scale)
    for name in ("bytes", "next"):
        unit[at[name]] = BITS_PER_BYTE / (scales.link_rate_bps * scenario.period_s)
        gain[at[name]] = 1 / np.log1p(spec.backlog_scale)
    gain[at["flows"]] = 1 / np.log1p(spec.flows_scale)
    unit[at["queue"]] = 1 / scenario.transport.mtu_bytes
    gain[at["queue"]] = 1 / np.log1p(scales.upper_buffer_bytes / scenario.transport.mtu_bytes)
    return unit, gain


def _own_index(scenario: Scenario, at: dict[str, slice]) -> IntArray:
    """[n_agents, 6] where `OWN` lies in the vector."""
    agent = np.arange(scales_of(scenario).n_agents)
    columns = [at[name].start + agent for name in ("limit", "rtt", "goodput", "wait", "bytes", "flows")]
    return np.stack(columns, axis=1)


def _index(spec: ObservationSpec, scenario: Scenario, at: dict[str, slice], slots: int) -> IntArray:
    """[slots, n_agents, numbers] where those that are taken as they are lie in the ring while a slot is the newest."""
    scales = scales_of(scenario)
    size = at["queue"].stop
    seen = scales.neighbours if spec.neighbours == "each" else scales.neighbours[:, :0]
    near = [at[name].start + seen for name in ("throughput", "mean_wait", "bytes")]
    upper = [at[name].start + scales.area for name in ("upper", "queue")]
    now = _own_index(scenario, at)
    old = np.concatenate([np.stack(near, axis=2).reshape(scales.n_agents, -1), np.stack(upper, axis=1)], axis=1)
    # A ring of delay + 1 slots: the oldest is the one after the newest.
    newest = size * np.arange(slots)[:, None, None]
    oldest = size * ((np.arange(slots) + 1) % slots)[:, None, None]
    return np.concatenate([newest + now, oldest + old], axis=2)


def obs_dim(spec: ObservationSpec, scenario: Scenario) -> int:
    """Numbers in one host's observation."""
    n_neighbours: int = scales_of(scenario).neighbours.shape[1]
    if spec.neighbours == "none":
        return len(OWN) + len(UPPER) + spec.ages
    if spec.neighbours in _POOLS:
        return len(OWN) + len(UPPER) + _POOLS[spec.neighbours].size + (POOLED_AGES if spec.ages else 0)
    return len(OWN) + len(NEIGHBOUR) * n_neighbours + len(UPPER) + (n_neighbours + 1 if spec.ages else 0)


def fair_share_at(spec: ObservationSpec) -> int | None:
    """Where a host's fair share of the upper port, over its link's rate, lies in its row; None: neighbours are hidden.

    Raises:
        ConfigError: neighbours are seen one by one, without such a number.
    """
    if spec.neighbours == "none":
        return None
    if spec.neighbours not in _POOLS:
        raise ConfigError(
            "action.kind 'shares' needs observation.neighbours 'pooled', 'ranked' or 'none', got "
            f"{spec.neighbours!r}: a fair share must be among what is observed"
        )
    return len(OWN) + len(UPPER) + FAIR


def guard_at(spec: ObservationSpec) -> tuple[int, int, int] | None:
    """Columns of a host's row by which `ncc.envs.action.ActionSpec` guards it; None if the row lacks one of them.

    Returns:
        Where its share among alike stands, the share of its neighbours that was busy, and its queued flows before.
    """
    if spec.neighbours != "ranked":
        return None
    first = len(OWN) + len(UPPER)
    return first + len(POOLED) + SHARE, first + BUSY, first + len(POOLED) + FLOWS_BEFORE


def _blame(m: Measurement | Measurements, racks: range | None) -> str:
    """What is not finite, where and when."""
    where, one = "", m[0] if isinstance(m, Measurements) else m
    if isinstance(m, Measurements):
        for row, number in enumerate(racks or ()):
            if _culprits(m[row]):
                where, one = f"rack {number}: ", m[row]
                break
    bad = ", ".join(_culprits(one) or ["rate_limit_bps"])
    return f"{where}epoch {one.epoch}: the datapath measured a number that is not finite ({bad})"


def _culprits(m: Measurement) -> list[str]:
    names = (
        "goodput_bps",
        "throughput_bps",
        "rtt_s",
        "wait_s",
        "queued_bytes",
        "upper_throughput_bps",
        "upper_queue_bytes",
    )
    return [name for name in names if not np.isfinite(getattr(m, name)).all()]
