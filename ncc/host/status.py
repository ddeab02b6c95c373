# SPDX-License-Identifier: BSD-3-Clause
"""The commands ``ncc host status`` and ``explain``: an agent's records, read in its network namespace."""

import argparse
import socket
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from ncc.core.units import NS_PER_S
from ncc.envs.linux import device
from ncc.envs.linux.queue import kernel_limits_bps
from ncc.host import restore
from ncc.host.agent import HELD_NS
from ncc.host.record import AgentRecord, Demand, HostRecord, alive, records

COLUMNS = 80
FIELD = 11
"""Width of the first column, which has the names."""
PEERS_MOST = 8
"""Neighbours that are listed; of more, the ones that were heard longest ago."""
State = Literal["fine", "degraded", "dead"]
"""Fine: the policy decides and hears all neighbours. Degraded: a limit holds, but not as configured. Dead: no agent
limits this host. The place in this list is the exit status."""
STATES = get_args(State)
_FROM = {
    "policy": "the policy",
    "formula": "the formula LOCAL",
    "last limits": "the last good decision",
    "fair share": "the fair share",
}
"""Sources of limits in words."""
_FIRST = ("an agent limits this host", "an agent limits this host, not as configured", "no agent limits this host")
"""First line of each state."""


class Report(msgspec.Struct, frozen=True):
    """State of a network namespace, with all that ``status`` prints."""

    state: State
    problems: list[str]
    """Sentences that say why the state is not fine."""
    kernel_bps: dict[str, float | None]
    """Limit of each interface with a queue of ours as the kernel has it, in bits/s of IP packets; null: the line's."""
    changed: dict[str, str]
    """Changes by an agent: the present value of each setting, and the one before."""
    agents: list[AgentRecord]
    """Records of agents: first the ones that limit."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of ``status``."""
    parser.add_argument("--json", action="store_true", help="print all as JSON")


def status(options: argparse.Namespace) -> int:
    """Print the status of this network namespace; return 0 if it is fine, 1 if it is degraded, 2 if it is dead."""
    report, living = reported(now_ns := time.monotonic_ns())
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print(*shown(report, living, now_ns), sep="\n")
    return STATES.index(report.state)


def explain(_: argparse.Namespace) -> int:
    """Print why each host has its limit, in sentences; the exit status is that of `status`."""
    report, living = reported(time.monotonic_ns())
    texts = [" ".join(report.problems)] if report.state == "dead" else []
    texts += [" ".join(reasons(record, host)) for record in living for host in record.hosts]
    print(*map(_wrapped, texts), sep="\n\n")
    return STATES.index(report.state)


def reported(now_ns: int) -> tuple[Report, list[AgentRecord]]:
    """Read the state of this network namespace, and the records of living agents; `now_ns` is monotonic."""
    known = records()
    kernel = {name: limit for _, name in socket.if_nameindex() for limit in kernel_limits_bps(name)}
    settings = {Path(name).name: (_now(name), setting) for name, setting in restore.left().items()}
    living = [record for record in known if alive(record, now_ns)]
    limiting = [record for record in known if not record.dry_run]
    state: State = "fine"
    if living and not (living[0].dry_run and (limiting or kernel)):
        agent = living[0]
        problems = list(_doubts(agent))
        if not agent.dry_run:
            open_ = [host.interface for host in agent.hosts if host.interface not in kernel]
            problems += [f"{name} has no queue of the agent any more, and nothing limits it." for name in open_]
            problems += [
                f"{name} is {now}, which somebody set; the agent had set {setting.set}."
                for name, (now, setting) in settings.items()
                if now != setting.set
            ]
            state = "dead" if open_ else state
        if problems and state == "fine":
            state = "degraded"
    else:
        state, problems = "dead", list(_dead(limiting, now_ns, bool(kernel or settings)))
    changed = {name: f"{now} (before: {setting.before})" for name, (now, setting) in settings.items()}
    return Report(state, problems, kernel, changed, known), living


def _dead(known: Sequence[AgentRecord], now_ns: int, left: bool) -> Iterator[str]:
    """Yield sentences about a network namespace in which no agent of `known` lives, although they should limit it."""
    if known:
        ago = _time((now_ns - known[0].time_ns) / NS_PER_S)
        yield f"The agent (process {known[0].pid}) was killed or hangs: its last record is {ago} old."
    else:
        yield "No agent limits this network namespace."
    yield "Nothing limits its interfaces but their lines."
    if left:
        yield "Its queue and settings are left: `ncc host restore`, or the next agent, removes them."


def _doubts(agent: AgentRecord) -> Iterator[str]:
    """Yield sentences that say what is not as configured."""
    if agent.decider != "policy":
        yield f"The limit is by {_FROM[agent.decider]}, not by the policy: {agent.why or 'no decision was possible'}."
    if silent := [peer.name for peer in agent.peers if peer.stale]:
        yield f"{len(silent)} of {len(agent.peers)} neighbours are silent: {_some(silent)}."
    if agent.uplink_stale:
        yield "The uplink's state does not come."
    if agent.refused:
        yield f"The last reload was refused: {agent.refused}."


def shown(report: Report, living: Sequence[AgentRecord], now_ns: int) -> Iterator[str]:
    """Yield the lines of ``status``, at most `COLUMNS` wide."""
    agent = living[0] if living else None
    dry = agent is not None and agent.dry_run
    first = "an agent dry-runs, nothing is limited" if dry else _FIRST[STATES.index(report.state)]
    yield from _lines(report.state.upper(), [first, *(f"! {problem}" for problem in report.problems)])
    if agent is not None:
        policy = f"policy {agent.policy} (sha256 {agent.sha256[:12]}...)"
        yield from _lines("agent", [f"process {agent.pid}, for {_time(time.time() - agent.began)}; {policy}"])
        for host in agent.hosts:
            yield from _lines(host.interface, _host(agent, host, report.kernel_bps.get(host.interface), living[1:]))
        yield from _lines("neighbours", _peers(agent, (now_ns - agent.time_ns) / NS_PER_S))
    changes = [f"{name}: root queue HTB (1:), filter {device.FILTER.decode()} at egress" for name in report.kernel_bps]
    changes += [f"{name} = {value}" for name, value in report.changed.items()]
    changes += [f"congestion control {record.congestion} registered" for record in living]
    yield from _lines("changed", changes)


def _host(
    agent: AgentRecord, host: HostRecord, kernel_bps: float | None, others: Sequence[AgentRecord]
) -> Iterator[str]:
    limit = "no limit" if kernel_bps is None else f"limit {_rate(kernel_bps)}"
    if agent.dry_run:
        limit = f"no limit; it would be {_rate(host.limit_bps)}"
    yield f"{limit} of {_rate(host.link_bps)}, by {_FROM[agent.decider]} since {_clock(agent.since)}"
    yield f"it {_does(host.demand, host.sent_bps)}"
    for other in others:
        for its in other.hosts:
            if its.interface == host.interface:
                change = (its.limit_bps or its.link_bps) / (host.limit_bps or host.link_bps) - 1
                dry = f"dry run of {other.policy} (process {other.pid})"
                yield f"{dry}: {_rate(its.limit_bps)}, {100 * change:+.0f} %"


def _peers(agent: AgentRecord, later_s: float) -> Iterator[str]:
    """Yield lines about neighbours and the uplink; the record is `later_s` old."""
    by_age = sorted(agent.peers, key=lambda peer: (peer.age_s is not None, -(peer.age_s or 0.0)))
    for peer in by_age[:PEERS_MOST]:
        if peer.age_s is None:
            yield f"{peer.name} never heard, counts as idle"
        else:
            age_s = peer.age_s + later_s * peer.stale
            idle = peer.stale and age_s > HELD_NS / NS_PER_S
            does = "counts as idle" if idle else _does(peer.demand, peer.demand.throughput_bps)
            yield f"{peer.name} heard {_time(age_s)} ago, {does}"
    if (more := len(by_age) - PEERS_MOST) > 0:
        yield f"and {more} others, heard later"
    if agent.uplink_age_s is not None or agent.uplink_stale:
        yield f"the uplink {'never heard' if agent.uplink_age_s is None else f'heard {_time(agent.uplink_age_s)} ago'}"


def reasons(agent: AgentRecord, host: HostRecord) -> Iterator[str]:
    """Yield sentences that say why a host of an agent has its limit."""
    yield f"{host.interface} {'would be allowed' if agent.dry_run else 'may send'} {_rate(host.limit_bps)}."
    if agent.dry_run:
        yield "This is a dry run: nothing enforces it."
    yield f"In the last period it sent {_load(host.demand, host.demand.throughput_bps)}."
    if agent.peers:
        busy = [peer.demand for peer in agent.peers if peer.demand.flows]
        total = Demand(*map(sum, zip(*map(msgspec.structs.astuple, busy), strict=True))) if busy else None
        of_them = f": together they sent {_load(total, total.throughput_bps)}" if total else ""
        yield f"{len(busy)} of {len(agent.peers)} neighbours had something to send{of_them}."
    n = len(agent.peers) + len(agent.hosts)
    uplink = f"{_rate(agent.uplink_bps)} for {n} host{'s' * (n != 1)}"
    yield f"The fair share of the uplink ({uplink}) is {_rate(host.fair_bps)}."
    answered_bps, since = host.decided_bps, f"Since {_clock(agent.since)}"
    if agent.decider == "fair share":
        answered_bps = host.fair_bps
        yield f"{since} the policy {agent.policy} is suspended: {agent.why}. So the fair share holds."
    elif agent.decider == "last limits":
        answered_bps = host.limit_bps
        yield f"{since} there is no usable decision: {agent.why}. So the last good limit holds."
    else:
        who = f"policy {agent.policy}" if agent.decider == "policy" else f"formula LOCAL ({agent.why})"
        yield f"The {who} answered {_rate(host.decided_bps)}."
    least, most = (_rate(frac * host.link_bps) for frac in agent.bounds_frac)
    made = "; they changed nothing" if answered_bps == host.limit_bps else f", and made {_rate(host.limit_bps)} of it"
    yield f"The bounds are {least} to {most}{made}."


def _now(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        return f"unknown ({error.strerror})"


def _does(demand: Demand, sent_bps: float) -> str:
    """Describe a host's traffic as the end of a sentence; `sent_bps` is the mean rate that it sends, if known."""
    return f"sends {_load(demand, sent_bps)}" if demand.flows or sent_bps else "is idle"


def _load(demand: Demand, sent_bps: float) -> str:
    flows = f"{demand.flows} flow{'s' * (demand.flows != 1)}"
    waiting = f"{_scaled(demand.queued_bytes)}B queued in {flows}" if demand.flows else "no data queued"
    return f"{_rate(sent_bps)}, {waiting}"


def _rate(rate_bps: float | None) -> str:
    return "the line's rate" if rate_bps is None else f"{_scaled(rate_bps)}bit/s"


def _scaled(value: float) -> str:
    """Return three digits and the prefix of the unit."""
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * scale:  # it is rounded to 1
            return f"{value / scale:.3g} {prefix}"
    return f"{value:.3g} "


def _time(time_s: float) -> str:
    for unit, scale in (("days", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if time_s >= 2 * scale:
            return f"{time_s / scale:.0f} {unit}"
    return f"{time_s * 1e3:.0f} ms" if time_s >= 1e-3 else "under 1 ms"


def _clock(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _wrapped(text: str, first: str = "", later: str = "") -> str:
    return textwrap.fill(text, COLUMNS, initial_indent=first, subsequent_indent=later, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _lines(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines beside a name."""
    for i, line in enumerate(lines):
        yield _wrapped(line, f"{'' if i else name:<{FIELD}} ", " " * (FIELD + 3))
