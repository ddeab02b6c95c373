# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of distributed training as requests, with the times that they take in an ideal network.

Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005, describes the
algorithms. n hosts have S bytes each:

- `ring`: an all-reduce of 2(n - 1) steps. In each step a host sends S/n to the next one, when it has what comes from
  the one before.
- `halving_doubling`: an all-reduce of 2 log2(n) steps. Partners are n/2, n/4, ... 1 and then 1, ... n/2 places apart
  and send S/2, S/4, ... S/n and then S/n, ... S/2. n is a power of 2.
- `all_to_all`: a host sends S/n to each of the others, `window` of them at a time.
"""

import math
from typing import Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.core.graph import Rows
from ncc.core.requests import Among
from ncc.core.topology import Topology
from ncc.core.traffic import at_most
from ncc.core.value import Count, Natural

Algorithm = Literal["ring", "halving_doubling", "all_to_all"]


class Collective(Among, frozen=True, tag="collective"):
    """A collective among hosts, `rounds` times with computations between; each is a request.

    A round starts when the last flow of the one before has come and every host has computed for `compute_s`.
    """

    algorithm: Algorithm
    size_bytes: Count
    """Payload of each host, S."""
    places: Literal["in_order", "random"] = "in_order"
    """Order of the hosts in the algorithm: that of the group, or drawn."""
    n: Natural = 0
    """Number of hosts that take part, the first ones of the group or drawn ones; 0: all."""
    window: Natural = 0
    """Flows of a host at a time, for `all_to_all`; 0: all at once."""
    rounds: Count = 1

    def fits(self, topology: Topology, duration_s: float) -> None:
        super().fits(topology, duration_s)
        if self.n > (most := len(topology.group(self.hosts))):
            raise ConfigError(f"n must be at most the {most} hosts of {self.hosts!r}, got {self.n}")
        if self.n == 1:
            raise ConfigError("n must be at least 2, or 0 for all hosts, got 1")
        if (n := self.n or most) < 2:
            raise ConfigError(f"hosts: group {self.hosts!r} has one host; a collective takes at least 2")
        if self.algorithm == "halving_doubling" and n & (n - 1):
            raise ConfigError(f"n must be a power of 2 for halving_doubling, got {n}")
        if self.window and self.algorithm != "all_to_all":
            raise ConfigError(f"window must be 0 for {self.algorithm}, whose steps wait for each other")
        steps = 2 * math.ceil(math.log2(n)) if self.algorithm == "halving_doubling" else 2 * (n - 1)
        at_most("rounds", float(self.rounds) * n * (steps + 1))

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        rows, hosts = Rows(), np.array(topology.group(self.hosts))
        hosts = (rng.permutation(hosts) if self.places == "random" else hosts)[: self.n or len(hosts)]
        after = last = np.full(len(hosts), -1)
        for rows.request in range(self.rounds):
            if rows.request:
                done, computed = rows.group(), rows.groups(len(hosts))
                rows.wait(hosts[0], after=last, group=done, start_s=self.start_s)
                rows.wait(hosts, after=done, group=computed, think_s=self.compute_s, start_s=self.start_s)
                after = computed
            match self.algorithm:
                case "ring":
                    last = self._ring(rows, hosts, after)
                case "halving_doubling":
                    last = self._halving_doubling(rows, hosts, after)
                case "all_to_all":
                    last = self._all_to_all(rows, hosts, after)
        return rows

    def _send(self, rows: Rows, src: IntArray, dst: IntArray, share: int, *, after: IntArray, group: IntArray) -> None:
        size_bytes = -(-self.size_bytes // share)
        rows.add(src, dst, size_bytes, after=after, group=group, request=rows.request, start_s=self.start_s)

    def _ring(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        """Append a ring whose host i waits for the group after[i]; return the groups of the last step, as the next."""
        for _ in range(2 * (len(hosts) - 1)):
            came = rows.groups(len(hosts))
            self._send(rows, hosts, np.roll(hosts, -1), len(hosts), after=after, group=came)
            after = np.roll(came, 1)
        return after

    def _halving_doubling(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        n = len(hosts)
        halving = [n >> k for k in range(1, n.bit_length())]
        for apart in (*halving, *reversed(halving)):
            came, partner = rows.groups(n), np.arange(n) ^ apart
            self._send(rows, hosts, hosts[partner], n // apart, after=after, group=came)
            after = came[partner]
        return after

    def _all_to_all(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        n = len(hosts)
        sent: list[IntArray] = []
        for apart in range(1, n):
            sent.append(rows.groups(n) if self.window or not sent else sent[0])
            waits = sent[apart - 1 - self.window] if self.window and apart > self.window else after
            self._send(rows, hosts, np.roll(hosts, -apart), n, after=waits, group=sent[-1])
        return np.concatenate(sent[-self.window :]) if self.window else sent[0]
