# SPDX-License-Identifier: BSD-3-Clause
"""Scheduling by receivers: the knowledge of a receiver about flows to it, and its grants to their senders.

An *edge* is a sender and a receiver between which there are flows that the receiver knows of and has not received
completely. The neighbours of a receiver are the senders of its edges (docs/receivers.md).
"""

from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray, IntArray
from ncc.core.topology import Topology

MAX_WINDOW_PKTS = 2**31 - 1
MAX_START_S = 9e9
"""Latest start of a flow in seconds: simulators keep times in nanoseconds, in 64 bits."""


@dataclass(frozen=True)
class Edges:
    """Flows as their receivers know them at the end of a period, a row for each edge; columns have shape [E]."""

    src: IntArray
    """Node id of the sender."""
    dst: IntArray
    """Node id of the receiver."""
    flows: IntArray
    """Number of the edge's flows, which the receiver knows of and has not received completely."""
    waiting_bytes: FloatArray
    """Payload of these flows that has not arrived, as far as the sender knows their sizes."""
    next_bytes: FloatArray
    """`waiting_bytes` of the one flow that has the least."""
    received_bytes: FloatArray
    """Payload of these flows that has arrived."""
    age_s: FloatArray
    """Time since the receiver learned of the newest of these flows."""

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class Queues:
    """Queues of the ports into neighbourhoods, where the links of their uplinks end."""

    into_bytes: FloatArray
    """Bytes that wait there, [n_neighbourhoods]; 0 at a host's end of a link."""


@dataclass(frozen=True)
class Grants:
    """Grants of receivers to senders, one per row; columns have shape [G].

    A grant holds until the next one for its pair, or until the pair has no flow left.
    """

    src: IntArray
    """Node id of the sender, which gets the grant."""
    dst: IntArray
    """Node id of the receiver, which gives it."""
    start_s: FloatArray
    """Time at which held flows of the pair may begin; one in the past means at once."""
    rate_bps: FloatArray
    """Limit on the rate of the pair's data, counted as IP packets; inf: no limit."""
    window_pkts: IntArray
    """Most full packets that each flow of the pair may have unacknowledged; 0: TCP decides."""

    def __len__(self) -> int:
        return len(self.src)

    def where(self, mask: BoolArray) -> "Grants":
        """Select the grants for which `mask` [G] is true."""
        return Grants(*(np.asarray(column)[mask] for column in vars(self).values()))

    def check(self, topology: Topology) -> None:
        """Raise `ConfigError` for a grant that no host could use, naming it."""
        shapes = {name: np.shape(column) for name, column in vars(self).items()}
        if len(set(shapes.values())) > 1 or len(np.shape(self.src)) != 1:
            raise ConfigError(f"the columns of Grants must have one length, got {shapes}")
        if not len(self):
            return

        src, dst, windows = np.asarray(self.src), np.asarray(self.dst), np.asarray(self.window_pkts)

        def is_host(nodes: np.ndarray) -> np.ndarray:
            known = (nodes >= 0) & (nodes < len(topology.nodes))
            return known & topology.is_host[np.where(known, nodes, 0)]

        wrong = {
            "src must be a host": ~is_host(src),
            "dst must be a host": ~is_host(dst),
            "a host tells itself nothing": src == dst,
            f"start_s must be a time of at most {MAX_START_S:g} s": ~(np.abs(self.start_s) <= MAX_START_S),
            "rate_bps must be above 0 bits/s, or inf for no limit": ~(np.asarray(self.rate_bps) > 0),
            f"window_pkts must be from 0 to {MAX_WINDOW_PKTS}": (windows < 0) | (windows > MAX_WINDOW_PKTS),
        }
        rows = np.array(list(wrong.values()))
        if rows.any():
            which, row = (int(first[0]) for first in rows.nonzero())
            raise ConfigError(f"Grants row {row} (node {src[row]} to node {dst[row]}): {list(wrong)[which]}")


@dataclass(frozen=True)
class Decision:
    """A limiter's decision for one period."""

    limits_bps: FloatArray
    """Rate limits of hosts in bits/s, [n_agents]; inf means no limit."""
    grants: Grants | None = None
    """Grants of receivers; None: receivers do not decide."""
    tag_params: tuple[int, ...] | None = None
    """All parameters of the hosts' tags (`HostStack.tags`), in the order and the units of the tags; None: they stay."""


_NONE, _NO_REAL = np.zeros(0, np.int64), np.zeros(0)
NO_QUEUES = Queues(_NO_REAL)
NO_EDGES = Edges(_NONE, _NONE, _NONE, _NO_REAL, _NO_REAL, _NO_REAL, _NO_REAL)


def parts(decision: FloatArray | Decision) -> tuple[FloatArray, Grants | None]:
    """Split a decision into its limits and its grants; an array of limits has no grants (None)."""
    return (decision.limits_bps, decision.grants) if isinstance(decision, Decision) else (decision, None)
