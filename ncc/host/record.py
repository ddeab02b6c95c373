# SPDX-License-Identifier: BSD-3-Clause
"""The record of a running agent: a file below `machine.FOLDER` that ``ncc host status`` and ``explain`` read.

An agent writes it once a second and removes it when it ends. The record of a killed agent stays until the next agent of
the network namespace begins, or until ``ncc host restore``.
"""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psutil

from ncc.core.errors import ResultError
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import machine
from ncc.envs.residual import STALE_PERIODS as FORMULA_PERIODS

if TYPE_CHECKING:
    from ncc.host.log import Log
    from ncc.host.loop import Loop
    from ncc.host.reload import InForce

STALE_S = 3.0
"""Age of a record from which on its agent counts as dead: it misses two of its writings."""
READABLE = 0o644
"""Mode of records: anybody may ask for the status. They hold no keys."""


class Demand(msgspec.Struct, frozen=True):
    """The load of a host in a period."""

    throughput_bps: float
    """Bits/s that it sent."""
    queued_bytes: float
    """Bytes that were written and had not left the host."""
    flows: int
    """Connections with such bytes."""


class HostRecord(msgspec.Struct, frozen=True):
    """A local host at its last decision; limits are in bits/s, and null is no limit."""

    interface: str
    demand: Demand
    link_bps: float
    fair_bps: float
    """Fair share of the uplink."""
    decided_bps: float | None
    """Answer of the policy before the bounds."""
    limit_bps: float | None
    """Limit after the bounds, which is in force unless the agent dry-runs."""
    sent_bps: float
    """Bits/s that it sent since the last record."""


class PeerRecord(msgspec.Struct, frozen=True):
    """A neighbour, as this agent sees it."""

    name: str
    """Address of its agent, and its number there if that is not 0."""
    age_s: float | None
    """Age of its newest state in seconds; null: none has come."""
    stale: bool
    """True if that is older than an agent accepts."""
    demand: Demand


class AgentRecord(msgspec.Struct, frozen=True):
    """A running agent."""

    pid: int
    time_ns: int
    """Monotonic time of this record."""
    began: float
    """Beginning of the agent, in seconds since 1970."""
    policy: str
    sha256: str
    """Digest of the policy file."""
    congestion: str
    """Name of the registered congestion control."""
    dry_run: bool
    decider: str
    """Source of the limits: policy, formula, last limits, fair share."""
    since: float
    """Time since which it decides, in seconds since 1970."""
    why: str
    """Reason for which the policy does not decide; empty: it does."""
    bounds_frac: tuple[float, float]
    """Bounds of the limits as fractions of the link's rate."""
    uplink_bps: float
    """Rate of the shared uplink."""
    uplink_age_s: float | None
    """Age of the uplink's state in seconds; null: nobody sends it, or none has come."""
    uplink_stale: bool
    alone: bool
    """True if it exchanges messages with nobody, and so has no port."""
    refused: str
    """Reason for which the last reload was refused; empty: it was not."""
    fixed: dict[str, str]
    """Options that change only by a restart, with their values."""
    hosts: list[HostRecord]
    peers: list[PeerRecord]


class Recorder:
    """A writer of an agent's record.

    Args:
        loop: loop of the agent.
        now: options and plan in force.
        log: log that is told when a record cannot be written.
    """

    def __init__(self, loop: "Loop", now: "InForce", log: "Log") -> None:
        self._loop, self._now, self._log = loop, now, log
        self._path = machine.FOLDER / f"{machine.namespace_cookie()}-{os.getpid()}.json"
        self._began = self._since = time.time()
        self._decider = ""
        self._sent = time.monotonic_ns(), list(loop.live.sent_bytes)
        sweep()

    def write(self, now_ns: int) -> None:
        """Replace the record by one of now; a failure is logged and changes nothing else."""
        part = self._path.with_suffix(".part")
        try:
            part.write_bytes(msgspec.json.encode(self._made(now_ns)))
            part.chmod(READABLE)
            part.replace(self._path)  # without a flush to disk, for which decisions would wait
        except OSError as error:
            self._log.warning("record", said=f"cannot write {self._path}: {error.strerror}; `status` calls this dead")

    def close(self) -> None:
        """Remove the record."""
        self._path.unlink(missing_ok=True)

    def _made(self, now_ns: int) -> AgentRecord:
        loop, agent, plan, inbox = self._loop, self._loop.agent, self._now.plan, self._loop.agent.exchange.inbox
        decider: str = agent.guard.decider
        why = agent.why if agent.guard.active else agent.guard.reason
        if decider == "policy" and self._now.outside:
            decider, why = "formula", f"{self._now.outside} (by the options of the network: --knows, --base-rtt, ...)"
        elif decider == "policy" and plan.file.header.action.kind == "residual" and agent.oldest >= FORMULA_PERIODS:
            decider, why = "formula", "messages of a neighbour are missing"
        if decider != self._decider:
            self._decider, self._since = decider, time.time()
        ages = [(now_ns - came_ns) / NS_PER_S if came_ns else None for came_ns in inbox.states_ns.tolist()]
        uplink_ns = int(inbox.uplink_ns.item())
        return AgentRecord(
            pid=os.getpid(),
            time_ns=now_ns,
            began=self._began,
            policy=plan.file.header.name,
            sha256=plan.file.sha256,
            congestion=loop.live.shim.name,
            dry_run=self._now.options.dry_run,
            decider=decider,
            since=self._since,
            why=why,
            bounds_frac=(plan.bounds.min_rate_frac, plan.bounds.max_rate_frac),
            uplink_bps=plan.network.uplink_rate_bps,
            uplink_age_s=(now_ns - uplink_ns) / NS_PER_S if uplink_ns else None,
            uplink_stale=agent.uplink_stale,
            alone=agent.exchange.alone,
            refused=self._now.refused,
            fixed=self._now.fixed,
            hosts=list(self._hosts(now_ns)),
            peers=[
                PeerRecord(str(peer), age_s, bool(stale), Demand(*demand))
                for peer, age_s, stale, demand in zip(
                    plan.peers,
                    ages,
                    agent.stale.tolist(),
                    inbox.states[["throughput_bps", "queued_bytes", "queued_flows"]].tolist(),
                    strict=True,
                )
            ],
        )

    def _hosts(self, now_ns: int) -> Iterator[HostRecord]:
        loop, neighbourhood = self._loop, self._loop.agent.neighbourhood
        own, decided = loop.own, self._loop.agent.decided_bps
        if own is None:
            return
        before_ns, before = self._sent
        sent_bytes = list(loop.live.sent_bytes)
        self._sent = now_ns, sent_bytes
        columns = [own.columns[name].tolist() for name in ("throughput_bps", "queued_bytes", "queued_flows")]
        for row, (interface, *demand) in enumerate(zip(self._now.options.interface, *columns, strict=True)):
            yield HostRecord(
                interface=interface,
                demand=Demand(*demand),
                link_bps=float(neighbourhood.link_bps[row]),
                fair_bps=float(neighbourhood.fair_bps[row]),
                decided_bps=None if decided is None else finite(decided[row]),
                limit_bps=finite(loop.limits_bps[row]),
                sent_bps=(sent_bytes[row] - before[row]) * BITS_PER_BYTE * NS_PER_S / max(now_ns - before_ns, 1),
            )


def finite(limit_bps: float) -> float | None:
    """Return a limit as records have it: None for no limit."""
    return float(limit_bps) if math.isfinite(limit_bps) else None


def records() -> list[AgentRecord]:
    """Return the records of this network namespace; the agents that limit come first, and of these the newest.

    Raises:
        ResultError: the record of a living agent cannot be read.
    """
    found = []
    for path in _paths():
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=AgentRecord))
        except FileNotFoundError:  # removed meanwhile
            continue
        except (OSError, msgspec.DecodeError) as error:
            if psutil.pid_exists(_pid(path)):
                raise ResultError(
                    f"the record of the agent that runs cannot be read ({path}: {error}), perhaps as it is of another "
                    "version of ncc: restart the agent (systemctl restart ncc-host)"
                ) from None
    return sorted(found, key=lambda record: (record.dry_run, -record.time_ns))


def alive(record: AgentRecord, now_ns: int) -> bool:
    """Return True if the agent of a record lives and writes records."""
    return psutil.pid_exists(record.pid) and now_ns - record.time_ns < STALE_S * NS_PER_S


def sweep() -> None:
    """Remove the records that killed agents left of this network namespace."""
    for path in _paths():
        if not psutil.pid_exists(_pid(path)):
            path.unlink(missing_ok=True)


def _pid(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _paths() -> list[Path]:
    return sorted(machine.FOLDER.glob(f"{machine.namespace_cookie()}-*.json"))
