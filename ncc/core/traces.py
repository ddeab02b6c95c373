# SPDX-License-Identifier: BSD-3-Clause
"""Traces of jobs in files of users: flows that start when others are complete, and computations between them."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.graph import NONE, Rows
from ncc.core.requests import Among, Think
from ncc.core.topology import Topology
from ncc.core.traffic import MAX_FLOWS, starts_in
from ncc.core.value import Natural, Value

MAX_ROWS = 200_000
COLUMNS = {
    "src": "number of the sender, from 0",
    "dst": "number of the receiver",
    "size_bytes": "payload; 0 for a computation, from a host to itself",
    "after": "numbers of earlier rows, from 0, separated by blanks; may be empty",
    "think_s": "time from their end to this row's start; 0 if left out",
    "request": "number of the request, below that of rows; 0 if left out",
}
NEEDED = ("src", "dst", "size_bytes")


class TraceRow(Value, frozen=True):
    """A flow of a trace, or a computation: a row without bytes from a host to itself."""

    src: Natural
    """Number of the sender among the hosts of the trace, from 0."""
    dst: Natural
    size_bytes: Natural
    after: tuple[Natural, ...] = ()
    """Numbers of earlier rows, from 0, that must be complete."""
    think_s: Think = 0.0
    """Time from then to its start, or from the trace's start if it waits for none. A computation ends then."""
    request: Natural = 0


class Trace(Among, frozen=True, tag="trace"):
    """Flows of a job, such as one step of a training, as requests.

    In YAML and on a command line `rows` may be a CSV file (`read_trace`).
    """

    rows: tuple[TraceRow, ...]

    def check(self) -> None:
        if not 1 <= len(self.rows) <= MAX_ROWS:
            raise ConfigError(f"Trace.rows must be 1 to {MAX_ROWS} rows, got {len(self.rows)}")
        for number, row in enumerate(self.rows):
            where = f"Trace.rows[{number}]"
            if (row.src == row.dst) != (row.size_bytes == 0):
                raise ConfigError(
                    f"{where} must have bytes and go to another host, or be a computation without bytes from a host to "
                    "itself"
                )
            if row.request >= len(self.rows):
                raise ConfigError(f"{where}.request must be below the {len(self.rows)} rows, got {row.request}")
            if max(row.after, default=-1) >= number:
                raise ConfigError(f"{where}.after must name rows before it, got {max(row.after)}")
        if (named := sum(len(row.after) for row in self.rows)) > MAX_FLOWS:
            raise ConfigError(
                f"Trace.rows may name at most {MAX_FLOWS} earlier rows in all, got {named}: let rows that wait for the "
                "same ones wait for one computation"
            )
        if not any(row.size_bytes for row in self.rows):
            raise ConfigError("Trace.rows must have a flow with bytes")

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        hosts = len(topology.group(self.hosts))
        for number, row in enumerate(self.rows):
            if (last := max(row.src, row.dst)) >= hosts:
                raise ConfigError(f"rows[{number}] names host {last}; group {self.hosts!r} has {hosts}, from 0")
            if not row.after:
                starts_in(f"rows[{number}].think_s", self.start_s + row.think_s, duration_s)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        hosts, rows = self.placed(topology, rng), Rows()
        own: list[int] = []
        joins: dict[tuple[int, ...], int] = {}
        after, waits = [], []
        for row in self.rows:
            before = tuple(sorted({own[number] for number in row.after}))
            if len(before) > 1 and before not in joins:
                joins[before] = rows.group()
                waits += [(row.src, group, joins[before]) for group in before]
            after.append(joins[before] if len(before) > 1 else max(before, default=NONE))
            own.append(rows.group())
        if waits:
            at, waited, joined = np.array(waits).T
            rows.wait(hosts[at], after=waited, group=joined, start_s=self.start_s)
        src, dst, size_bytes, request = (
            np.array([getattr(row, name) for row in self.rows]) for name in ("src", "dst", "size_bytes", "request")
        )
        think_s, free = np.array([row.think_s for row in self.rows]), np.array(after) < 0
        rows.add(
            hosts[src], hosts[dst], size_bytes,
            after=np.array(after), group=np.array(own), request=request,
            think_s=np.where(free, 0.0, think_s), start_s=self.start_s + np.where(free, think_s, 0.0),
        )  # fmt: skip
        return rows


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a trace from a CSV file whose first line names its columns.

    The columns are `COLUMNS`, in any order; those in `NEEDED` must be there.

    Raises:
        ConfigError: the file cannot be read or is no such table; the message names the file and the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not CSV text"
        raise ConfigError(f"trace {str(path)!r} cannot be read ({why}); name a CSV file of flows") from None
    names = [name.strip() for name in lines[0]] if lines else []
    if not set(NEEDED) <= set(names) <= set(COLUMNS) or len(set(names)) < len(names):
        raise ConfigError(
            f"{path}, line 1 must name the columns {', '.join(NEEDED)} and may name "
            f"{', '.join(set(COLUMNS) - set(NEEDED))}, each once; got {', '.join(names) or 'nothing'}"
        )
    return [_row(path, number, names, line) for number, line in enumerate(lines[1:], start=2) if any(line)]


def _row(path: Path, number: int, names: list[str], line: list[str]) -> dict[str, Any]:
    where = f"{path}, line {number}"
    if len(line) != len(names):
        raise ConfigError(f"{where} must have {len(names)} values, one for each column, got {len(line)}")
    row: dict[str, Any] = {}
    for name, text in zip(names, line, strict=True):
        try:
            if name == "after":
                row[name] = [int(each) for each in text.split()]
            elif text.strip() or name in NEEDED:
                row[name] = float(text) if name == "think_s" else int(text)
        except ValueError:
            raise ConfigError(f"{where}: {name} must be the {COLUMNS[name]}, got {text!r}") from None
    return row
