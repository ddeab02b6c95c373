# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host replay``: the agent on measurements that a run has recorded. No root, no traffic."""

import argparse
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ncc.core.errors import ConfigError, ResultError
from ncc.core.flows import FloatArray
from ncc.core.units import to_ns
from ncc.harness.atomic import check_replaceable, replacing
from ncc.harness.columns import numpy_column
from ncc.harness.progress import Bar
from ncc.host.agent import Agent
from ncc.host.exchange import Exchange
from ncc.host.guard import Guard, GuardSettings
from ncc.host.message import MOST
from ncc.host.neighbourhood import OWN, UPLINK_SIGNALS, Neighbourhood, check_fits, limiter_of
from ncc.host.plan import narrowed, neighbourhood_of
from ncc.policies import PolicyFile, load_policy_file

NEEDED = ("time_s", "host_name", "area", "rate_limit_bps", *OWN, *UPLINK_SIGNALS)


class Recording:
    """The epochs of a neighbourhood, from a table that `ncc.harness.columns` calls ``epochs``.

    Attributes:
        hosts: their names.
        time_s: [n_epochs]
        columns: [n_epochs, n_hosts] each of `OWN`, ``rate_limit_bps`` and `UPLINK_SIGNALS`.

    Raises:
        ResultError: the file is no such table, or lacks something.
    """

    def __init__(self, path: Path, area: int) -> None:
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            said = str(error).splitlines()[0]
            raise ResultError(f"cannot read {path} ({said}); name a run's epochs.parquet") from None
        if missing := sorted(set(NEEDED) - set(table.column_names)):
            raise ResultError(
                f"{path} has no column {missing[0]!r}; name the epochs.parquet of a run of this version of ncc"
            )
        areas = numpy_column(table, "area")
        if area not in areas:
            known = ", ".join(map(str, np.unique(areas).tolist()))
            raise ResultError(f"{path} has no neighbourhood {area}; it has {known or 'no epochs at all'}")
        rows = table.filter(pa.array(areas == area))
        names = rows["host_name"].to_pylist()
        self.hosts = list(dict.fromkeys(names))
        n = len(self.hosts)
        if len(rows) % n or names[: 2 * n] != (self.hosts * 2)[: len(rows)]:
            raise ResultError(f"{path} does not have a row for each epoch and host in turn; name one run's epochs")
        grids = {name: numpy_column(rows, name).reshape(-1, n) for name in NEEDED if name not in ("host_name", "area")}
        for name, grid in grids.items():
            if grid.dtype.kind not in "fiu":
                kind = rows.schema.field(name).type
                raise ResultError(f"{path} has no numbers in {name!r}, but {kind}; name a run's epochs.parquet")
            if (strange := grid[~_possible(name, grid)]).size:
                raise ResultError(f"{path} has {strange[0]:g} in {name!r}, which nothing measured; name a run's epochs")
        self.time_s: FloatArray = grids.pop("time_s")[:, 0]
        self.columns = grids

    @property
    def period_s(self) -> float:
        """Time between most epochs: a run in real time may have missed some."""
        return float(np.median(np.diff(self.time_s, prepend=0.0)))


def _possible(name: str, grid: FloatArray) -> NDArray[np.bool_]:
    """Values that a host can have, as in messages (`ncc.host.message.sane_state`)."""
    if name == "rate_limit_bps":
        return grid > 0
    found: NDArray[np.bool_] = (grid >= 0) & (grid <= MOST)
    return found


def command(options: argparse.Namespace) -> int:
    """Decide for every epoch of a recording; 0.

    Raises:
        ConfigError: a policy or network that does not fit.
        ResultError: no such recording.
    """
    file = load_policy_file(options.policy)
    if options.out is not None:
        if not os.access(options.out.parent, os.W_OK | os.X_OK):
            raise ConfigError(
                f"--out {options.out}: {options.out.parent} is no folder that can be written; make it first"
            )
        check_replaceable(options.out)
    recording = Recording(options.epochs, options.area)
    if options.link_rate is None:
        raise ConfigError("replay has no interface to ask: say --link-rate, in bits/s")
    if options.period is None:
        options.period = round(recording.period_s, 9)
    bounds = narrowed(file, options)
    spec = neighbourhood_of(options, file, len(recording.hosts), [])
    check_fits(file, spec)
    neighbourhood = Neighbourhood(limiter_of(file), spec.scenario(), range(spec.hosts), [])
    said: list[str] = []
    guard = Guard(GuardSettings(), bounds, neighbourhood.link_bps, said.append)
    limits = decided(Agent(neighbourhood, guard, Exchange()), recording, spec.period_s)
    print(*_lines(file, recording, limits, guard, said), sep="\n")
    if options.out is not None:
        with replacing(options.out) as temporary:
            pq.write_table(_table(recording, limits), temporary)
        print(f"Written to {options.out}")
    return 0


def decided(agent: Agent, recording: Recording, period_s: float) -> FloatArray:
    """[n_epochs, n_hosts] limits that the agent decides after each epoch, in which the recorded ones were in force.

    It is sent the uplink's recorded state of a period ago, and nothing else.
    """
    limits, period_ns = np.empty((len(recording.time_s), len(recording.hosts))), to_ns(period_s)
    grids = recording.columns
    idle = {name: np.zeros_like(grids[name][0]) for name in OWN} | {"rtt_s": agent.neighbourhood.base_rtt_s}
    inbox = agent.exchange.inbox
    inbox.uplink_ns[0] = period_ns
    agent.decide(idle, period_ns)  # every run begins with nothing measured
    with Bar("replaying", len(limits), unit="epochs") as bar:
        for epoch in range(len(limits)):
            now_ns = (epoch + 2) * period_ns
            own = {name: np.ascontiguousarray(grids[name][epoch]) for name in OWN}
            agent.guard.held_bps = grids["rate_limit_bps"][epoch].astype(np.float64)
            limits[epoch] = agent.decide(own, now_ns)
            inbox.uplink_ns[0] = now_ns
            for name in UPLINK_SIGNALS:
                inbox.uplink[name] = grids[name][epoch, 0]
            if epoch % 1000 == 0:
                bar.update(epoch)
    return limits


def _lines(file: PolicyFile, recording: Recording, limits: FloatArray, guard: Guard, said: list[str]) -> list[str]:
    n, hosts = limits.shape
    found = [
        f"{file.header.name}, {n:,} epochs of {recording.period_s * 1e3:g} ms, {hosts} hosts",
        f"limits decided: {np.isfinite(limits).mean():.1%} finite; {_range(limits)}",
        f"guard: {guard.counters['clipped_limits']:,} limits clipped, {guard.counters['bad_periods']:,} bad periods",
        *said,
    ]
    recorded = recording.columns["rate_limit_bps"][1:]
    if np.isfinite(recorded).any():
        alike = np.isclose(limits[:-1], recorded, rtol=1e-6)
        found.append(f"as recorded in the next epoch: {alike.mean():.2%} of {alike.size:,} limits")
    return found


def _range(limits: FloatArray) -> str:
    finite = limits[np.isfinite(limits)]
    if not finite.size:
        return "none"
    low, middle, high = (np.quantile(finite, q) / 1e6 for q in (0, 0.5, 1))
    return f"{low:.4g} to {high:.4g} Mbit/s, median {middle:.4g}"


def _table(recording: Recording, limits: FloatArray) -> pa.Table:
    n, hosts = limits.shape
    return pa.table(
        {
            "time_s": np.repeat(recording.time_s, hosts),
            "host_name": recording.hosts * n,
            "in_force_bps": recording.columns["rate_limit_bps"].ravel(),
            "decided_bps": limits.ravel(),
        }
    )
