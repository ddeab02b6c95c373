# SPDX-License-Identifier: BSD-3-Clause
"""Workloads of key-value stores and of jobs over many hosts, after the benchmarks YCSB and HiBench."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.core.graph import NONE, Rows, join
from ncc.core.requests import QUERY_BYTES, Among, Asking, Think, ask_in_turn
from ncc.core.topology import Topology
from ncc.core.traffic import at_most
from ncc.core.value import Count

Operation = Literal["read", "update", "insert", "scan", "read_modify_write"]
MIXES: dict[str, dict[Operation, float]] = {
    "A": {"read": 0.5, "update": 0.5},
    "B": {"read": 0.95, "update": 0.05},
    "C": {"read": 1.0},
    "D": {"read": 0.95, "insert": 0.05},
    "E": {"scan": 0.95, "insert": 0.05},
    "F": {"read": 0.5, "read_modify_write": 0.5},
}
"""Shares of operations of YCSB's workloads (its files workloads/workloada to workloadf)."""
ZIPF = 0.99
"""Exponent of the popularity of records (YCSB's ZipfianGenerator.ZIPFIAN_CONSTANT)."""
FIELD_BYTES = 100
"""Size of a field, of which an update sends one (fieldlength, writeallfields of workloads/workload_template)."""
RECORD_BYTES = 10 * FIELD_BYTES
"""Size of a record, which a read answers (fieldcount, readallfields)."""
SCAN_MOST = 100
"""Most records of a scan, which are drawn uniformly from 1 (maxscanlength, scanlengthdistribution of workloade)."""
MAX_RECORDS = 10_000_000
"""Most records of a store, whose popularities and places are in memory while flows are drawn."""
DONE_BYTES = 1
"""Answer to a write. It is ours: YCSB says nothing about a store's protocol."""


class Ycsb(Asking, frozen=True, tag="ycsb"):
    """Clients of a key-value store (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010).

    Each client makes `operations` operations, one after the other; each is a request. Records lie on hosts of `sources`
    at random, as many on each. Popular ones are asked for more often, and a client asks for none on its own host.
    Popular records stay popular: in workload D, whose popular ones are the newest, an insert changes nothing here.
    """

    workload: Literal["A", "B", "C", "D", "E", "F"]
    clients: Count = 1
    """Number of clients; if there are more than hosts in `destinations`, several share a host."""
    operations: Count = 1000
    """Operations of each client; YCSB's files have 1,000 (operationcount)."""
    records: Annotated[int, Meta(ge=1, le=MAX_RECORDS)] = 1000
    """Records in the store; YCSB's files have 1,000 (recordcount)."""

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        at_most("operations", 4.0 * self.clients * self.operations)
        if self.records == 1 and set(topology.group(self.sources)) & set(topology.group(self.destinations)):
            raise ConfigError("records must be at least 2, since a client may be on the host of the only one")

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows, mix = Rows(), MIXES[self.workload]
        servers, clients = np.array(topology.group(self.sources)), topology.group(self.destinations)
        popular = np.arange(1.0, self.records + 1) ** -ZIPF
        places = rng.permutation(self.records)  # popular records lie anywhere (insertorder=hashed)
        server_of = servers[places * len(servers) // self.records]
        for client in np.resize(clients, self.clients).tolist():
            elsewhere = np.where(server_of == client, 0.0, popular)
            asked = rng.choice(server_of, self.operations, p=elsewhere / elsewhere.sum()).tolist()
            kinds = rng.choice(list(mix), self.operations, p=list(mix.values())).tolist()
            trips = [
                (server, number, think_s, *sizes)
                for number, (operation, server) in enumerate(zip(kinds, asked, strict=True))
                for sizes, think_s in zip(_sizes(operation, rng), (self.think_s if number else 0.0, 0.0), strict=False)
            ]
            to, number, think_s, query_bytes, answer_bytes = (np.array(column) for column in zip(*trips, strict=True))
            ask_in_turn(
                rows,
                client,
                to,
                query_bytes=query_bytes,
                answer_bytes=answer_bytes,
                think_s=think_s,
                request=rows.request + number,
                service_s=self.service_s,
                start_s=self.start_s,
            )
            rows.request += self.operations
        return rows


def _sizes(operation: Operation, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Bytes of the query and the answer of each round trip of an operation."""
    read = (QUERY_BYTES, RECORD_BYTES)
    match operation:
        case "read":
            return [read]
        case "update":
            return [(QUERY_BYTES + FIELD_BYTES, DONE_BYTES)]
        case "insert":
            return [(QUERY_BYTES + RECORD_BYTES, DONE_BYTES)]
        case "scan":
            return [(QUERY_BYTES, RECORD_BYTES * int(rng.integers(1, SCAN_MOST + 1)))]
        case "read_modify_write":
            return [read, (QUERY_BYTES + FIELD_BYTES, DONE_BYTES)]


Job = Literal["sort", "terasort", "wordcount", "pagerank", "dfsioe"]
Profile = Literal["tiny", "small", "large"]
INPUT_BYTES: dict[Job, dict[Profile, int]] = {
    "sort": {"tiny": 32_000, "small": 3_200_000, "large": 320_000_000},
    "terasort": {"tiny": 3_200_000, "small": 320_000_000, "large": 3_200_000_000},
    "wordcount": {"tiny": 32_000, "small": 320_000_000, "large": 3_200_000_000},
    "pagerank": {"tiny": 5_000, "small": 500_000, "large": 50_000_000},
    "dfsioe": {"tiny": 16_000_000, "small": 320_000_000, "large": 640_000_000},
}
"""Bytes of a job's input: conf/workloads/micro/sort.conf, terasort.conf (rows of 100 bytes), wordcount.conf and
dfsioe.conf (which writes them) of HiBench, and the pages of conf/workloads/websearch/pagerank.conf. That a page has 100
bytes is ours."""
FILES: dict[Profile, int] = {"tiny": 16, "small": 32, "large": 64}
"""Files that dfsioe writes (dfsioe.conf)."""
REPLICAS = 3
"""Copies of a file, the first one on the host that writes it (dfs.replication of Hadoop)."""
PIECE_BYTES = 64 * 1024
"""Unit in which a host passes a file on (dfs.client-write-packet-size of Hadoop)."""
ROUNDS: dict[Profile, int] = {"tiny": 1, "small": 3, "large": 3}
"""Shuffles of pagerank, one for each iteration (num_iterations of pagerank.conf); other jobs have one."""
SHUFFLED_FRAC: dict[Job, float] = {"sort": 1.0, "terasort": 1.0, "wordcount": 0.05, "pagerank": 1.0, "dfsioe": 1.0}
"""Share of the input that a shuffle moves. Sorts move all of it; wordcount's is ours, as its maps combine words."""


class HiBench(Among, frozen=True, tag="hibench"):
    """A job over many hosts (Huang et al., "The HiBench benchmark suite", ICDE workshops 2010), as a request.

    Each of the n hosts has 1/n of the input. In a shuffle it sends 1/n of what it moves to each of the others, all at
    once. The next shuffle starts when all hosts have everything and have computed for `compute_s`.

    `dfsioe` writes files instead, in turn on each host, all at once. A file goes to a second host and from there to a
    third one, which are drawn. A host passes a piece on when it has it. Two pieces are on their way between two
    hosts, on connections that stay open if `transport.connections_per_pair` is 2.
    """

    job: Job
    profile: Profile = "small"
    """Size of the input (hibench.scale.profile)."""
    compute_s: Think = 0.0

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        n, least = len(topology.group(self.hosts)), REPLICAS if self.job == "dfsioe" else 2
        if n < least:
            raise ConfigError(f"hosts: group {self.hosts!r} has {n} hosts; {self.job} takes at least {least}")
        at_most("hosts", 3.0 * n**2)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        hosts = self.placed(topology, rng)
        return self._files(hosts, rng) if self.job == "dfsioe" else self._shuffles(hosts)

    def _shuffles(self, hosts: IntArray) -> Rows:
        rows, n = Rows(), len(hosts)
        moved_bytes = INPUT_BYTES[self.job][self.profile] * SHUFFLED_FRAC[self.job]
        share_bytes = max(1, round(moved_bytes / n**2))
        src, dst = (each.ravel() for each in np.meshgrid(hosts, hosts, indexing="ij"))
        src, dst = src[src != dst], dst[src != dst]
        after = -1
        for _ in range(ROUNDS[self.profile] if self.job == "pagerank" else 1):
            came = rows.group()
            rows.add(
                src, dst, share_bytes, after=after, group=came, think_s=self.compute_s if after >= 0 else 0.0,
                start_s=self.start_s, request=rows.request,
            )  # fmt: skip
            after = came
        return rows

    def _files(self, hosts: IntArray, rng: np.random.Generator) -> Rows:
        rows, n = Rows(), FILES[self.profile]
        file_bytes = INPUT_BYTES[self.job][self.profile] // n
        writers = np.resize(hosts, n)
        holders = [np.append(host, rng.choice(hosts[hosts != host], REPLICAS - 1, replace=False)) for host in writers]
        way = np.stack(holders, axis=1)  # [REPLICAS, n]
        came = np.full((2, REPLICAS, n), NONE)  # groups of the two last pieces, by their place on the way
        for begin in range(0, file_bytes, PIECE_BYTES):
            here = np.full(n, NONE)
            for hop in range(1, REPLICAS):
                waits = join(rows, way[hop - 1], here, came[0, hop], start_s=self.start_s)
                here = rows.groups(n)
                rows.add(
                    way[hop - 1], way[hop], min(PIECE_BYTES, file_bytes - begin), after=waits, group=here,
                    start_s=self.start_s, request=rows.request,
                )  # fmt: skip
                came[0, hop], came[1, hop] = came[1, hop], here
        return rows
