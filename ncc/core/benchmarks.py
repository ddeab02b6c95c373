# SPDX-License-Identifier: BSD-3-Clause
"""Workloads of key-value stores and of jobs over many hosts, after the benchmarks YCSB and HiBench."""

from typing import Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.graph import Rows
from ncc.core.requests import QUERY_BYTES, Among, Asking, ask
from ncc.core.topology import Topology
from ncc.core.traffic import at_most, single
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
WORD_BYTES = 1
"""Answer to a write. It is ours: YCSB says nothing about a store's protocol."""


class Ycsb(Asking, frozen=True, tag="ycsb"):
    """Clients of a key-value store (Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010).

    Each client makes `operations` operations, one after the other; each is a request. Records lie on hosts of `sources`
    at random, and popular ones are asked for more often. Popular records stay popular: in workload D, whose popular
    ones are the newest, an insert changes nothing here.
    """

    workload: Literal["A", "B", "C", "D", "E", "F"]
    clients: Count = 1
    """Number of clients; if there are more than hosts in `destinations`, several share a host."""
    operations: Count = 1000
    """Operations of each client; YCSB's files have 1,000 (operationcount)."""
    records: Count = 1000
    """Records in the store; YCSB's files have 1,000 (recordcount)."""

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        at_most("operations", 4.0 * self.clients * self.operations)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows, servers = Rows(), np.array(topology.group(self.sources))
        clients = np.resize(topology.group(self.destinations), self.clients)
        mix = MIXES[self.workload]
        popular = np.arange(1.0, self.records + 1) ** -ZIPF
        popular /= popular.sum()
        places = rng.permutation(self.records)  # popular records lie anywhere (insertorder=hashed)
        for client in clients.tolist():
            before = -1
            kinds = rng.choice(len(mix), self.operations, p=list(mix.values()))
            for number, kind in enumerate(kinds.tolist()):
                operation = list(mix)[kind]
                record = int(places[rng.choice(self.records, p=popular)])
                own = servers[servers != client]
                server = own[record * len(own) // self.records]
                for trip, (query_bytes, answer_bytes) in enumerate(_sizes(operation, rng)):
                    before = ask(
                        rows,
                        client,
                        np.array([server]),
                        query_bytes=query_bytes,
                        answer_bytes=answer_bytes,
                        after=before,
                        think_s=self.think_s if number and not trip else 0.0,
                        service_s=self.service_s,
                        start_s=self.start_s,
                    )
                rows.request += 1
        return rows


def _sizes(operation: Operation, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Bytes of the query and the answer of each round trip of an operation."""
    read = (QUERY_BYTES, RECORD_BYTES)
    match operation:
        case "read":
            return [read]
        case "update":
            return [(QUERY_BYTES + FIELD_BYTES, WORD_BYTES)]
        case "insert":
            return [(QUERY_BYTES + RECORD_BYTES, WORD_BYTES)]
        case "scan":
            return [(QUERY_BYTES, RECORD_BYTES * int(rng.integers(1, SCAN_MOST + 1)))]
        case "read_modify_write":
            return [read, (QUERY_BYTES + FIELD_BYTES, WORD_BYTES)]


Job = Literal["sort", "terasort", "wordcount", "pagerank"]
Profile = Literal["tiny", "small", "large"]
INPUT_BYTES: dict[Job, dict[Profile, int]] = {
    "sort": {"tiny": 32_000, "small": 3_200_000, "large": 320_000_000},
    "terasort": {"tiny": 3_200_000, "small": 320_000_000, "large": 3_200_000_000},
    "wordcount": {"tiny": 32_000, "small": 320_000_000, "large": 3_200_000_000},
    "pagerank": {"tiny": 5_000, "small": 500_000, "large": 50_000_000},
}
"""Bytes of a job's input: conf/workloads/micro/sort.conf, terasort.conf (rows of 100 bytes) and wordcount.conf of
HiBench, and the pages of conf/workloads/websearch/pagerank.conf. That a page has 100 bytes is ours."""
ROUNDS: dict[Profile, int] = {"tiny": 1, "small": 3, "large": 3}
"""Shuffles of pagerank, one for each iteration (num_iterations of pagerank.conf); other jobs have one."""
SHUFFLED_FRAC: dict[Job, float] = {"sort": 1.0, "terasort": 1.0, "wordcount": 0.05, "pagerank": 1.0}
"""Share of the input that a shuffle moves. Sorts move all of it; wordcount's is ours, as its maps combine words."""


class HiBench(Among, frozen=True, tag="hibench"):
    """A job over many hosts (Huang et al., "The HiBench benchmark suite", ICDE workshops 2010), as a request.

    Each of the n hosts has 1/n of the input. In a shuffle it sends 1/n of what it moves to each of the others, all at
    once. The next shuffle starts when all hosts have everything and have computed for `compute_s`.
    """

    job: Job
    profile: Profile = "small"
    """Size of the input (hibench.scale.profile)."""

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        if single(topology, self.hosts):
            raise ConfigError(f"hosts: group {self.hosts!r} has one host; a shuffle takes at least 2")
        at_most("hosts", 3.0 * len(topology.group(self.hosts)) ** 2)

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows, hosts = Rows(), np.array(topology.group(self.hosts))
        n = len(hosts)
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
