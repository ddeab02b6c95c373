# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of distributed training as requests.

n hosts have S bytes each. Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
IJHPCA 2005, describes the first two and the tree; Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan", Parallel Computing 2009, the double tree; Huang et al., "GPipe", NeurIPS 2019, the
pipeline.

- `ring`: an all-reduce of 2(n - 1) steps. In each step a host sends S/n to the next one, when it has the data from
  the one before.
- `halving_doubling`: an all-reduce of 2 log2(n) steps. Partners are n/2, n/4, ... 1 and then 1, ... n/2 places apart
  and send S/2, S/4, ... S/n and then S/n, ... S/2. n is a power of 2.
- `tree`: an all-reduce up and down a binary tree. Host i has the children 2i + 1 and 2i + 2. It sends S up when it has
  what both send, and S down to both when it has what its parent sends.
- `double_tree`: two trees with S/2 each, the second one over the hosts in reverse order, so that a host that has
  children in one has none in the other.
- `all_to_all`: a host sends S/n to each of the others, `window` of them at a time.
- `pipeline`: each host is a stage. It computes for `compute_s`, and sends S to the next stage.

`pieces` cuts S into parts. A part of a tree follows the one before on each edge. Those of a pipeline are micro-batches:
a stage computes one when it has it and is done with the one before.
"""

import math
from typing import Literal

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import IntArray
from ncc.core.graph import NONE, Rows, join
from ncc.core.requests import Among, Think
from ncc.core.topology import Topology
from ncc.core.traffic import at_most
from ncc.core.value import Count, Natural

Algorithm = Literal["ring", "halving_doubling", "tree", "double_tree", "all_to_all", "pipeline"]
CUT = ("tree", "double_tree", "pipeline")
"""Algorithms that send in pieces."""


class Collective(Among, frozen=True, tag="collective"):
    """A collective among hosts, `rounds` times with computations between; each is a request.

    A round starts when the last flow of the one before has come and every host has computed for `compute_s`; a round of
    a `pipeline` starts when the last stage of the one before has computed.
    """

    algorithm: Algorithm
    size_bytes: Count
    """Payload of each host, S."""
    n: Natural = 0
    """Number of hosts that take part, the first ones of the group or drawn ones; 0: all."""
    window: Natural = 0
    """Flows of a host at a time, for `all_to_all`; 0: all at once."""
    pieces: Count = 1
    """Parts of S, for trees and the pipeline."""
    rounds: Count = 1
    compute_s: Think = 0.0

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
        if self.pieces > 1 and self.algorithm not in CUT:
            raise ConfigError(f"pieces must be 1 for {self.algorithm}; only {', '.join(CUT)} send in pieces")
        if self.pieces > self.size_bytes:
            raise ConfigError(f"pieces must be at most size_bytes ({self.size_bytes}), a byte each, got {self.pieces}")
        steps = {"halving_doubling": 2 * math.ceil(math.log2(n))} | dict.fromkeys(CUT, 12 * self.pieces)
        at_most("rounds", float(self.rounds) * n * (steps.get(self.algorithm, 2 * (n - 1)) + 1))

    def draw_rows(self, topology: Topology, rng: np.random.Generator) -> Rows:
        hosts = self.placed(topology, rng)
        hosts = hosts[: self.n or len(hosts)]
        rows, after = Rows(), np.full(len(hosts), NONE)
        last = after
        for rows.request in range(self.rounds):
            if rows.request:
                done, computed = rows.group(), rows.groups(len(hosts))
                rows.wait(hosts[0], after=last, group=done, start_s=self.start_s)
                compute_s = 0.0 if self.algorithm == "pipeline" else self.compute_s
                rows.wait(hosts, after=done, group=computed, think_s=compute_s, start_s=self.start_s)
                after = computed
            last = self._round(rows, hosts, after)
        return rows

    def _round(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        """Append a round in which host i waits for the group after[i]; return the groups that end it."""
        match self.algorithm:
            case "ring":
                return self._ring(rows, hosts, after)
            case "halving_doubling":
                return self._halving_doubling(rows, hosts, after)
            case "tree":
                return self._tree(rows, hosts, after, self.pieces)
            case "double_tree":
                trees = [(hosts, after), (hosts[::-1], after[::-1])]
                return np.concatenate([self._tree(rows, *each, 2 * self.pieces) for each in trees])
            case "all_to_all":
                return self._all_to_all(rows, hosts, after)
            case "pipeline":
                return self._pipeline(rows, hosts, after)

    def _send(self, rows: Rows, src: IntArray, dst: IntArray, share: int, *, after: IntArray, group: IntArray) -> None:
        """Append flows of 1/share of S."""
        size_bytes = -(-self.size_bytes // share)
        rows.add(src, dst, size_bytes, after=after, group=group, request=rows.request, start_s=self.start_s)

    def _ring(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
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

    def _tree(self, rows: Rows, hosts: IntArray, after: IntArray, share: int) -> IntArray:
        """Append pieces of S/share each that go up and down a tree whose root is the first host."""
        n = len(hosts)
        levels = [np.arange((1 << k) - 1, min((2 << k) - 1, n)) for k in range(1, n.bit_length())]
        up, down = np.full(n, NONE), np.full(n, NONE)  # groups of the flows to a host: from its children, its parent
        for _ in range(self.pieces):
            before, ready = up.copy(), after.copy()  # hosts without children have theirs from the start
            for nodes in reversed(levels):
                parents = (nodes - 1) // 2
                leaves = join(rows, hosts[nodes], ready[nodes], before[parents], start_s=self.start_s)
                up[np.unique(parents)] = rows.groups(len(np.unique(parents)))
                self._send(rows, hosts[nodes], hosts[parents], share, after=leaves, group=up[parents])
                ready[np.unique(parents)] = up[np.unique(parents)]
            ready = np.where(np.arange(n) == 0, up, NONE)
            for nodes in levels:
                parents = (nodes - 1) // 2
                waits = join(rows, hosts[parents], ready[parents], down[nodes], start_s=self.start_s)
                down[nodes] = ready[nodes] = rows.groups(len(nodes))
                self._send(rows, hosts[parents], hosts[nodes], share, after=waits, group=down[nodes])
        return np.append(down[1:], up[0])

    def _all_to_all(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        n = len(hosts)
        sent: list[IntArray] = []
        for apart in range(1, n):
            sent.append(rows.groups(n) if self.window or not sent else sent[0])
            waits = sent[apart - 1 - self.window] if self.window and apart > self.window else after
            self._send(rows, hosts, np.roll(hosts, -apart), n, after=waits, group=sent[-1])
        return np.concatenate(sent[-self.window :]) if self.window else sent[0]

    def _pipeline(self, rows: Rows, hosts: IntArray, after: IntArray) -> IntArray:
        """Append stages and micro-batches, step by step: in step k, stage i computes batch k - i, if there is one."""
        n = len(hosts)
        computed, came = np.full(n, NONE), np.full(n, NONE)  # by stage: its newest computation and activation
        computed[0] = after[0]
        if computed[0] < 0:  # so that the first computation takes its time, too
            computed[0] = rows.group()
            rows.wait(hosts[0], group=computed[0], start_s=self.start_s)
        for step in range(n + self.pieces - 1):
            stages = np.arange(max(0, step - self.pieces + 1), min(step + 1, n))
            ready = join(rows, hosts[stages], came[stages], computed[stages], start_s=self.start_s)
            now = rows.groups(len(stages))
            rows.wait(hosts[stages], after=ready, group=now, think_s=self.compute_s, start_s=self.start_s)
            computed[stages] = now
            senders = stages[stages < n - 1]
            waits = join(rows, hosts[senders], computed[senders], came[senders + 1], start_s=self.start_s)
            came[senders + 1] = rows.groups(len(senders))
            self._send(rows, hosts[senders], hosts[senders + 1], self.pieces, after=waits, group=came[senders + 1])
        return computed[-1:]
