# SPDX-License-Identifier: BSD-3-Clause
"""Requests for objects of a store with replicas, of which some are popular (Wang, PhD thesis 2021, 3.2 and 4.2)."""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from ncc.core.distributions import SizeDistribution
from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.core.graph import Rows
from ncc.core.placement import MAX_CLUSTERED, closeness, clusters, cover, gather, together
from ncc.core.requests import QUERY_BYTES, Asking, ask
from ncc.core.swarms import Fabric, Sicc, ask_hubs
from ncc.core.topology import Topology
from ncc.core.traffic import at_most, named
from ncc.core.value import Count, Fraction, Natural, Positive, Value

MAX_ENTRIES = 20_000_000
"""Most copies of a store's objects, and most objects in PICC's log of requests."""


class Picc(Value, frozen=True, kw_only=True):
    """PICC's placement (section 4.1; `ncc.core.placement`). Other requests than those that run are the log."""

    theta: Count = 1000
    """Copies of objects of each rack that count as popular and move to its gathering servers."""
    logged: Count = 100
    """Requests in the log, which tells how often each object is asked for."""
    capacity_bytes: Positive | None = None
    """Bytes of all answers of the log from which on a gathering server takes no further object; null: no limit."""
    cluster_weight: Positive | None = None
    """Weight of Algorithm 2, by which correlated popular objects move to one server; null: it is left out."""


class Store(Asking, frozen=True, kw_only=True, tag="store"):
    """Requests of one front end for many objects, one after the other.

    Objects lie on servers drawn from `sources`, each copy on another one, without the front end. Each object of a
    request is popular with probability `popular_frac`. The front end sends one query to each server that it asks, and
    one answer has all the objects of this server. Without PICC and SICC, the copy to ask for is drawn.
    """

    asked: Count = 1000
    """Objects of a request."""
    objects: Count = 20_200
    popular: Natural = 200
    """Number of objects that are popular: the first ones."""
    popular_frac: Fraction = 0.5
    correlated: Annotated[int, Meta(ge=1)] = 1
    """Popular objects that are always asked for together; 1: they are independent."""
    copies: Count = 3
    object_bytes: Count | SizeDistribution
    requests: Count = 1
    picc: Picc | None = None
    sicc: Sicc | None = None
    """Asking through hubs (`ncc.core.swarms`); null: servers answer the front end."""
    query_bytes: Count = QUERY_BYTES

    def check(self) -> None:
        if not 0 < self.popular < self.objects:
            raise ConfigError(f"Store.popular must be from 1 to objects - 1 ({self.objects - 1}), got {self.popular}")
        if (n := self.objects * self.copies) > MAX_ENTRIES:
            raise ConfigError(f"Store.objects times copies must be at most {MAX_ENTRIES}, got {n}: lower one of them")
        if self.popular % self.correlated:
            raise ConfigError(
                f"Store.correlated must divide popular ({self.popular}), got {self.correlated}: objects of a group are "
                "asked for together"
            )
        if self.sicc is not None and self.writes != "at_once":
            raise ConfigError("Store.writes must be at_once with sicc: hubs write answers as they arrive")
        if self.picc is not None and self.sicc is not None:
            raise ConfigError("Store.picc and Store.sicc are two ways to ask: set one of them to null")
        if self.picc is not None and (n := self.picc.logged * self.asked) > MAX_ENTRIES:
            raise ConfigError(
                f"Store.picc.logged times asked must be at most {MAX_ENTRIES}, got {n}: choose a shorter log"
            )
        if self.picc is not None and self.picc.cluster_weight is not None and self.popular > MAX_CLUSTERED:
            raise ConfigError(
                f"Store.picc.cluster_weight needs at most {MAX_CLUSTERED} popular objects, got {self.popular}: set it "
                "to null"
            )

    @property
    def sets_rates(self) -> bool:
        return self.sicc is not None

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        if self.sicc is not None:
            with named("sicc"):
                for host in topology.group(self.destinations):
                    topology.down_port(host)
        if (n := len(topology.group(self.sources)) - 1) < self.copies:
            raise ConfigError(f"copies must be at most the {n} servers other than the front end, got {self.copies}")
        at_most("requests", (2.0 if self.sicc is None else 5.0) * self.requests * self.asked)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows, before = Rows(), -1
        front_end = int(rng.choice(topology.group(self.destinations)))
        servers = np.array([host for host in topology.group(self.sources) if host != front_end])
        if isinstance(self.object_bytes, SizeDistribution):
            sizes = self.object_bytes.sample(self.objects, rng)
        else:
            sizes = np.full(self.objects, self.object_bytes)
        holders = servers[_distinct(self.objects, self.copies, len(servers), rng)]
        asked = self._asked(self.requests, rng)
        copy = rng.integers(self.copies, size=asked.shape)
        moved = holders if self.picc is None else self._placed(self.picc, topology, sizes, holders, rng)
        fabric = None if self.sicc is None else Fabric(topology)
        timing: dict[str, Any] = {"service_s": self.service_s, "start_s": self.start_s, "query_bytes": self.query_bytes}
        for objects, drawn in zip(asked, copy, strict=True):
            think_s = self.think_s if before >= 0 else 0.0
            if self.sicc is not None and fabric is not None:
                first = holders[objects[:, None], (drawn[:, None] + np.arange(self.copies)) % self.copies]
                before = ask_hubs(
                    rows,
                    self.sicc,
                    fabric,
                    front_end,
                    sizes=sizes[objects],
                    holders=first,
                    rng=rng,
                    after=before,
                    think_s=think_s,
                    **timing,
                )
                rows.request += 1
                continue
            at = holders[objects, drawn] if self.picc is None else cover(moved[objects])
            servers_asked, which = np.unique(at, return_inverse=True)
            before = ask(
                rows,
                front_end,
                servers_asked,
                answer_bytes=np.bincount(which, sizes[objects]).astype(np.int64),
                after=before,
                think_s=think_s,
                **timing,
            )
            rows.request += 1
        return rows

    def _asked(self, requests: int, rng: np.random.Generator) -> IntArray:
        """Draw the objects of requests, [requests, asked]; with `correlated`, whole groups of popular ones."""
        shape, place = (requests, self.asked), np.arange(self.asked)
        first = place - place % self.correlated  # the objects of a group stand side by side
        group = rng.integers(self.popular // self.correlated, size=shape)[:, first]
        chosen = (rng.random(shape) < self.popular_frac)[:, first]
        regular = rng.integers(self.popular, self.objects, size=shape)
        return np.where(chosen, group * self.correlated + place % self.correlated, regular).astype(np.int64)

    def _placed(
        self, picc: Picc, topology: Topology, sizes: IntArray, holders: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Return the holders after PICC has moved objects by a log of requests."""
        log = self._asked(picc.logged, rng)
        if picc.cluster_weight is not None:
            found = clusters(closeness(log, self.popular), picc.cluster_weight)
            holders = together(holders, (group for group in found if len(group) > 1))
        frequency = np.bincount(log.ravel(), minlength=self.objects).astype(np.float64)
        return gather(
            sizes,
            holders,
            Fabric(topology).rack_of,
            frequency,
            theta=picc.theta,
            capacity_bytes=picc.capacity_bytes or np.inf,
        )


def _distinct(n: int, k: int, of: int, rng: np.random.Generator) -> IntArray:
    """Draw n rows of k different numbers below `of`, [n, k] (Floyd's algorithm)."""
    drawn = np.full((n, k), -1)
    for column, last in enumerate(range(of - k, of)):
        number = rng.integers(last + 1, size=n)
        taken = (drawn == number[:, None]).any(axis=1)
        drawn[:, column] = np.where(taken, last, number)
    return drawn
