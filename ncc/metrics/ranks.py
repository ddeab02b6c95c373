# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of flows for a scheduler that does not know how long they are, in bytes: the lowest goes first.

The scheduler knows the bytes a that a flow has sent, and the bytes that its application has written, at most
`WRITTEN_BYTES` more. The rank of a flow whose end is written is the bytes that it has left, as under SRPT. Of any other
flow the scheduler knows that its size S is above k = a + `WRITTEN_BYTES`, and its rank is

    k - a + min over d of  E[min(S - k, d) | S > k] / P(S <= k + d | S > k).

The last term is the inverse of the Gittins index of S at age k (Gittins, Glazebrook and Weber, Multi-armed Bandit
Allocation Indices, 2011, chapter 3; for queues Scully and Harchol-Balter, SOAP Bubbles, 2018). The term k - a is what
is left of the flow when its end is written. From then on the flow has a lower rank than ever before, so a scheduler
that has come so far does not stop. On a single bottleneck with Poisson arrivals no scheduler that knows as much has a
smaller mean completion time.

- ``services``: S has the distribution of the flow's workload component, its service.
- ``attained``: nothing is known of S. P(S > k) = 1 / k, which has no scale, makes the last term k. Then among flows
  whose ends are not written the one that has sent least goes first.
"""

import numpy as np

from ncc.core.distributions import SizeDistribution
from ncc.core.flows import FloatArray

WRITTEN_BYTES = 65536
"""Most bytes of a flow that are written and not sent: the size of a socket's send buffer."""
LEVELS_PER_OCTAVE = 8
"""Number of levels per doubling of the known bytes; between two levels a rank is constant."""


def levels(most_bytes: float) -> FloatArray:
    """Known bytes [n_levels] at which ranks change, rising from `WRITTEN_BYTES` to at least `most_bytes`."""
    octaves = np.log2(max(most_bytes / WRITTEN_BYTES, 1.0))
    steps = np.arange(np.ceil(octaves * LEVELS_PER_OCTAVE) + 1)
    return np.asarray(WRITTEN_BYTES * 2.0 ** (steps / LEVELS_PER_OCTAVE))


def attained_ranks(known_bytes: FloatArray) -> FloatArray:
    """Ranks [n] in bytes of flows with `known_bytes` [n] written so far and unknown size, without a distribution."""
    return WRITTEN_BYTES + known_bytes


def gittins_ranks(known_bytes: FloatArray, sizes: SizeDistribution) -> FloatArray:
    """Ranks [n] in bytes of flows with `known_bytes` written so far and unknown size, for a distribution of sizes.

    The rank is inf if the distribution has no larger size.

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
