# SPDX-License-Identifier: BSD-3-Clause
"""Base of the components of a workload, and checks that several kinds of them need."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.graph import Rows
from ncc.core.topology import Topology
from ncc.core.value import NonNegative, Value
from ncc.core.writes import AnyWrites

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Columns start_s, src, dst and size_bytes of one component, unsorted."""

MAX_FLOWS = 5_000_000


class Traffic(Value, frozen=True, kw_only=True, tag_field="kind"):
    """One component of a workload."""

    writes: AnyWrites = "at_once"
    """Times at which applications write the bytes of a flow: as soon as the send buffer has room, or piece by piece."""
    endless: ClassVar[bool] = False
    """True if the flows outlast the run: they are measured while they last and need not be delivered."""

    @property
    def sets_rates(self) -> bool:
        """True if queries set the rates of senders (`ncc.core.flows.Streams`), which needs receivers."""
        return False

    def draw(self, topology: Topology, duration_s: float, rng: np.random.Generator) -> Columns:
        """Draw flows that arrive in [0, duration_s), in any order."""
        raise TypeError(f"{type(self).__name__} must define draw()")

    def fits(self, topology: Topology, duration_s: float) -> None:
        """Raise `ConfigError` if flows cannot be drawn on `topology`; the message begins with the name of a field."""

    def unusual_on(self, topology: Topology) -> str:
        """A probable mistake on this network, as a clause that begins with the name of a field; empty if none."""
        return ""

    def offered_bps(self, topology: Topology) -> dict[int, float]:
        """Long-run payload rate that this component offers to the port that it names, in bits/s by port id."""
        return {}


class Requests(Traffic, frozen=True, kw_only=True):
    """A component of requests: flows that start when others are complete (`ncc.core.flows.Graph`)."""

    start_s: NonNegative = 0.0
    """Start of the first requests."""

    def fits(self, topology: Topology, duration_s: float) -> None:
        starts_in("start_s", self.start_s, duration_s)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        """Draw the rows of the graph."""
        raise TypeError(f"{type(self).__name__} must define draw_rows()")

    def ends(self, topology: Topology) -> frozenset[int]:
        """Node ids of the hosts that may send or receive."""
        raise TypeError(f"{type(self).__name__} must define ends()")


def join(columns: list[np.ndarray]) -> np.ndarray:
    """Concatenate columns, of which there may be none."""
    return np.concatenate(columns) if columns else np.zeros(0)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the field's name before the message of a `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def check_groups(topology: Topology, **groups: str) -> None:
    """Raise `ConfigError` with the field whose group the topology does not have."""
    for field, name in groups.items():
        with named(field):
            topology.group(name)


def single(topology: Topology, group: str) -> bool:
    """True if a group has one host."""
    return len(topology.group(group)) < 2


def starts_in(field: str, start_s: float, duration_s: float) -> None:
    """Raise `ConfigError` if a start is not within the run."""
    if start_s >= duration_s:
        raise ConfigError(f"{field} must be below duration_s ({duration_s} s), got {start_s} s")


def at_most(field: str, flows: float) -> None:
    """Raise `ConfigError` for more than `MAX_FLOWS` flows."""
    if flows > MAX_FLOWS:
        raise ConfigError(
            f"{field} asks for about {flows:.3g} flows; at most {MAX_FLOWS} are allowed: lower it or shorten duration_s"
        )
