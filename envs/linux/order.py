# SPDX-License-Identifier: BSD-3-Clause
"""A flow order as weights: what the shim can do of "the flow with the largest key goes next".

The kernel paces connections and does not queue their packets, so an order becomes shares of the host's rate. Of the
flows of a host the first in order has `FIRST`, and every next one a `STEP`th of the one before, at least `LEAST`; what
the first does not use goes to the others, some milliseconds later. Keys are worked out once a period, from what the
host knew at the last reports.

So an order is much weaker here than in a simulator. A steeper ladder makes it no stronger but slower: a flow whose
turn comes sends when its pacing timer, armed at the rate it had, goes off; a new one has the least weight until it is
first reported; and in an incast the window holds the first flow back, not its share. There (scenario lab_incast, NCC)
the mean FCT was 55 ms with equal weights, 57 with 4:2:1, 66 with 16:4:1 and 190 with 256:16:1.
"""

import numpy as np

from ncc.core.flows import FloatArray, IntArray
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import extension
from ncc.envs.linux.measure import Meter
from ncc.envs.native.params import Params

FIRST = 4
STEP = 2
LEAST = 1


class Weights:
    """Of all live flows, by the keys of one header."""

    def __init__(self, order: str, params: Params) -> None:
        self._order, self._params = order, list(params)
        self._depth = extension().order_depth(order, self._params)

    def of(self, meter: Meter, time_s: float) -> tuple[IntArray, IntArray]:
        """Rows of the live flows of agents and the weight of each, both [n]."""
        rows = meter.live[meter.agent[meter.live] < meter.n_agents]
        age_s = time_s - meter.start_s[rows]
        keys = np.zeros(len(rows), np.uint64)
        extension().order_keys(
            self._order,
            self._params,
            age_ns=_ns(age_s),
            waited_ns=np.minimum(_ns(time_s - meter.last_left_s[rows]), _ns(age_s)),
            size_bytes=meter.size_bytes[rows],
            left_bytes=meter.left_bytes[rows],
            delivered_bytes=meter.delivered_bytes[rows],
            keys=keys,
        )
        return rows, by_rank(meter.agent[rows], keys, rows, self._depth)


def by_rank(agent: IntArray, keys: np.ndarray, rows: IntArray, depth: int) -> IntArray:
    """Weights of flows by the rank of their key among those of their host; all have shape [n].

    Of equal keys the flow that came first goes first. With a `depth` only so many flows of a host, those that came
    first (the least `rows`), are put in order; the others have the least weight.
    """
    weights = np.empty(len(rows), np.int64)
    extension().rank_weights(agent, keys, rows, depth, FIRST, STEP, LEAST, weights)
    return weights


def _ns(seconds: FloatArray) -> IntArray:
    return np.maximum(np.rint(seconds * NS_PER_S), 0).astype(np.int64)


class WeightsByWait:
    """The same for connections of which only the shim knows (live.py): what is not known of them is what has been seen.

    A flow's size is then what it has sent so far and what is written and unsent, so that an order by what is left
    goes by what waits.
    """

    def __init__(self, order: str, params: Params) -> None:
        self._order, self._params = order, list(params)
        self._depth = extension().order_depth(order, self._params)

    def of(self, live: IntArray, now_ns: int) -> IntArray:
        """Weights [n] of live connections, from `ncc.envs.linux.extension.LIVE_COLUMNS` [.., n] of each."""
        _, _, host, began_ns, last_left_ns, left, unsent, delivered = np.ascontiguousarray(live)
        age_ns = np.maximum(now_ns - began_ns, 0)
        left = np.maximum(left, delivered)  # what was sent again and then acknowledged twice counts against it
        keys = np.zeros(len(host), np.uint64)
        extension().order_keys(
            self._order,
            self._params,
            age_ns=age_ns,
            waited_ns=np.minimum(np.maximum(now_ns - last_left_ns, 0), age_ns),
            size_bytes=np.maximum(left + unsent, 1),
            left_bytes=left,
            delivered_bytes=delivered,
            keys=keys,
        )
        return by_rank(host, keys, began_ns, self._depth)
