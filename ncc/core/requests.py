# SPDX-License-Identifier: BSD-3-Clause
"""Workloads of applications that ask many servers at once."""

from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ncc.core.distributions import SizeDistribution
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.graph import MAX_THINK_S, NONE, Rows
from ncc.core.topology import Topology
from ncc.core.traffic import Requests, at_most, check_groups, single
from ncc.core.value import Count, Name

Think = Annotated[float, Meta(ge=0, le=MAX_THINK_S)]
"""Seconds between the end of a group and a flow that waits for it."""
QUERY_BYTES = 40
"""Payload of a query. It is ours: wang2021 gives none."""


class Asking(Requests, frozen=True, kw_only=True):
    """Requests to servers, one after the other."""

    sources: Name
    """Group of the servers."""
    destinations: Name
    """Group of the hosts that ask."""
    service_s: Think = 0.0
    """Time from the end of a query to the start of its answer."""
    think_s: Think = 0.0
    """Time from the end of a request to the start of the next."""

    def ends(self, topology: Topology) -> frozenset[int]:
        return frozenset(topology.group(self.sources)) | frozenset(topology.group(self.destinations))

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        check_groups(topology, sources=self.sources, destinations=self.destinations)
        if single(topology, self.sources) and topology.group(self.sources)[0] in topology.group(self.destinations):
            raise ConfigError(f"sources: group {self.sources!r} has no host other than one that asks")


class Among(Requests, frozen=True, kw_only=True):
    """Requests in which hosts of one group send to each other."""

    hosts: Name
    places: Literal["in_order", "random"] = "in_order"
    """Order of the hosts: that of the group, or drawn."""

    def placed(self, topology: Topology, rng: np.random.Generator) -> IntArray:
        """Return the hosts in their order."""
        hosts = np.array(topology.group(self.hosts))
        return rng.permutation(hosts) if self.places == "random" else hosts

    def ends(self, topology: Topology) -> frozenset[int]:
        return frozenset(topology.group(self.hosts))

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        check_groups(topology, hosts=self.hosts)


class FanOut(Asking, frozen=True, tag="fan_out"):
    """Requests of front ends: each asks `fan_in` servers at once, and is complete when all have answered.

    Each front end makes `requests` requests, one after the other. A request sends a query to each server, which answers
    `service_s` after the query has come. Front ends are drawn from `destinations`. The servers of a request are drawn
    from `sources`, without the front end; only if there are fewer than `fan_in`, further rounds draw them again.
    """

    fan_in: Count
    answer_bytes: Count | SizeDistribution
    """Payload of an answer, or the table from which it is drawn."""
    requests: Count = 1
    front_ends: Count = 1
    query_bytes: Count = QUERY_BYTES

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        if self.front_ends > (n := len(topology.group(self.destinations))):
            raise ConfigError(f"front_ends must be at most the {n} hosts of destinations, got {self.front_ends}")
        at_most("requests", 2.0 * self.requests * self.front_ends * self.fan_in)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows = Rows()
        for front_end in rng.permutation(topology.group(self.destinations))[: self.front_ends].tolist():
            before = -1
            for number in range(self.requests):
                servers = some_of(topology.group(self.sources), front_end, self.fan_in, rng)
                sizes = self.answer_bytes
                answers = sizes.sample(self.fan_in, rng) if isinstance(sizes, SizeDistribution) else sizes
                before = ask(
                    rows,
                    front_end,
                    servers,
                    query_bytes=self.query_bytes,
                    answer_bytes=answers,
                    after=before,
                    think_s=self.think_s if number else 0.0,
                    service_s=self.service_s,
                    start_s=self.start_s,
                )
                rows.request += 1
        return rows


def some_of(hosts: tuple[int, ...], but: int, n: int, rng: np.random.Generator) -> IntArray:
    """Draw n hosts [n] other than `but`; none twice, unless there are fewer than n."""
    others = np.array([host for host in hosts if host != but])
    drawn = [rng.permutation(others) for _ in range(-(-n // len(others)))]
    return np.concatenate(drawn)[:n].astype(np.int64)


def ask(
    rows: Rows,
    front_end: int,
    servers: IntArray,
    *,
    query_bytes: int | IntArray,
    answer_bytes: int | IntArray,
    after: int,
    think_s: float,
    service_s: float,
    start_s: float,
) -> int:
    """Append a query to each of the servers [n], and their answers; return the group of the answers.

    The rows are of the request that `rows` is at.

    Args:
        query_bytes: payload of a query, for all or of each.
        answer_bytes: payload of an answer, for all or of each.
        after: group that the queries wait for; -1: none.
        think_s: time from then to the queries.
        service_s: time from a query to its answer.
        start_s: start without a group to wait for.
    """
    asked, answered = rows.groups(len(servers)), rows.group()
    rows.add(
        front_end,
        servers,
        query_bytes,
        group=asked,
        after=after,
        think_s=think_s,
        start_s=start_s,
        request=rows.request,
    )
    rows.add(
        servers, front_end, answer_bytes,
        group=answered, after=asked, think_s=service_s, answer=True, start_s=start_s, request=rows.request,
    )  # fmt: skip
    return answered


def ask_in_turn(
    rows: Rows,
    front_end: int,
    servers: IntArray,
    *,
    query_bytes: IntArray,
    answer_bytes: IntArray,
    think_s: FloatArray,
    request: IntArray,
    service_s: float,
    start_s: float,
) -> None:
    """Append n round trips of a front end, each of which waits for the answer before; arrays are [n].

    Args:
        servers: host that is asked.
        think_s: time from the answer before to the query.
        request: request of which the round trip is a part; arguments that are not arrays are those of `ask`.
    """

    def both(query: npt.ArrayLike, answer: npt.ArrayLike) -> np.ndarray:
        """Columns of queries and answers by turns, [2 n]."""
        return np.stack(np.broadcast_arrays(query, answer), axis=1).ravel()

    groups = rows.groups(2 * len(servers))
    first = np.full(len(servers), front_end)
    rows.add(
        both(first, servers),
        both(servers, first),
        both(query_bytes, answer_bytes),
        group=groups,
        after=np.r_[NONE, groups[:-1]],
        think_s=both(think_s, service_s),
        answer=both(False, np.ones(len(servers), bool)),
        start_s=start_s,
        request=both(request, request),
    )
