# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of flows for a scheduler that does not know how long they are, in bytes: the lowest goes first.

It knows what a flow has sent, a, and what its application has written, at most `WRITTEN_BYTES` beyond that. A flow
whose end is written has the rank of what it has left, as under SRPT. Of any other flow it knows that its size S is
above k = a + `WRITTEN_BYTES`, and its rank is

    k - a + min over d of  E[min(S - k, d) | S > k] / P(S <= k + d | S > k).

The second term is the inverse of the Gittins index of S at age k (Gittins, Glazebrook and Weber, Multi-armed Bandit
Allocation Indices, 2011, chapter 3; for queues Scully and Harchol-Balter, SOAP Bubbles, 2018). The first is the rest
of the flow once its end is written: to serve it then is worth more than ever before, so no one stops there. On a single
bottleneck with Poisson arrivals no scheduler that knows as much has a smaller mean completion time.

- ``services``: S has the distribution of the flow's workload component, its service.
- ``attained``: nothing is known of S. P(S > k) = 1 / k at every scale makes the second term k, so that among flows
  whose ends are not written least attained goes first.
"""

import numpy as np

from ncc.core.distributions import SizeDistribution
from ncc.core.flows import FloatArray

WRITTEN_BYTES = 65536
"""Most that an application has written of a flow and the host has not sent: the send buffer of a socket."""
LEVELS_PER_OCTAVE = 8
"""Levels of known bytes on which ranks are constant, for each doubling."""


def levels(most_bytes: float) -> FloatArray:
    """Known bytes [n_levels] at which ranks change, rising from `WRITTEN_BYTES` to at least `most_bytes`."""
    octaves = np.log2(max(most_bytes / WRITTEN_BYTES, 1.0))
    steps = np.arange(np.ceil(octaves * LEVELS_PER_OCTAVE) + 1)
    return np.asarray(WRITTEN_BYTES * 2.0 ** (steps / LEVELS_PER_OCTAVE))


def attained_ranks(known_bytes: FloatArray) -> FloatArray:
    """Ranks of flows with `known_bytes` written so far and unknown size, when no size distribution is given."""
    return WRITTEN_BYTES + known_bytes


def gittins_ranks(known_bytes: FloatArray, sizes: SizeDistribution) -> FloatArray:
    """Ranks of flows with `known_bytes` written so far and unknown size, for a size distribution; inf beyond its end.

    Args:
        known_bytes: [n], rising.
        sizes: distribution of the flows' sizes.
    """
    points, upto = sizes.columns
    # A jump is where two points have one size; the grid has a place on each side of it.
    grid = np.unique(np.concatenate([known_bytes, points, points * (1 - 1e-12)]))
    above = 1 - np.interp(grid, points, upto)
    area = np.concatenate([[0.0], np.cumsum(np.diff(grid) * (above[1:] + above[:-1]) / 2)])
    start = np.searchsorted(grid, known_bytes)
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = (area - area[start, None]) / (above[start, None] - above)
    costs[(np.arange(len(grid)) <= start[:, None]) | ~np.isfinite(costs)] = np.inf
    ranks: FloatArray = WRITTEN_BYTES + costs.min(1)
    return ranks
