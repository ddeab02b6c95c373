# SPDX-License-Identifier: BSD-3-Clause
"""Flow orders as weights: the shim's approximation of "the flow with the largest key goes next".

The kernel paces connections and does not queue their packets, so an order becomes shares of the host's rate. The first
flow of a host has weight `FIRST`, and each next one a `STEP`th of the one before, at least `LEAST`. The part that the
first does not use goes to the others some milliseconds later. Keys are computed once a period from the last reports.

An order is therefore much weaker than in a simulator. Steeper weights do not make it stronger, only slower: a flow
whose turn comes sends when its pacing timer, armed at its old rate, goes off; a new one has the least weight until its
first report; and in an incast the window holds the first flow back, not its share. In one (lab_incast at 200
Mbit/s, NCC) the mean FCT was 55 ms with equal weights, 57 with 4:2:1, 66 with 16:4:1 and 190 with 256:16:1.
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


class _Order:
    """Weights by the keys of one header."""

    def __init__(self, order: str, params: Params) -> None:
        self._order, self._params = order, list(params)
        self._depth = extension().order_depth(order, self._params)

    def _weights(self, host: IntArray, came: IntArray, **columns: IntArray) -> IntArray:
        """Weights [n] of flows of hosts, in the order in which they `came`, by what a header reads of each."""
        keys = np.zeros(len(host), np.uint64)
        extension().order_keys(self._order, self._params, **columns, keys=keys)
        return by_rank(host, keys, came, self._depth)


class Weights(_Order):
    """Weights of all live flows."""

    def of(self, meter: Meter, time_s: float) -> tuple[IntArray, IntArray]:
        """Return the rows of the agents' live flows and the weight of each, both [n]."""
        rows = meter.live[meter.agent[meter.live] < meter.n_agents]
        age_ns = _ns(time_s - meter.start_s[rows])
        return rows, self._weights(
            meter.agent[rows],
            rows,
            age_ns=age_ns,
            waited_ns=np.minimum(_ns(time_s - meter.last_left_s[rows]), age_ns),
            size_bytes=np.maximum(meter.known_bytes[rows], 1),
            left_bytes=meter.left_bytes[rows],
            delivered_bytes=meter.delivered_bytes[rows],
        )


def by_rank(agent: IntArray, keys: np.ndarray, rows: IntArray, depth: int) -> IntArray:
    """Return weights of flows by the rank of their key among the flows of their host; all arrays have shape [n].

    Among equal keys the flow that came first goes first. With a `depth` above 0, only that many flows of a host, the
    ones that came first (the least `rows`), are ordered; the others have the least weight.
    """
    weights = np.empty(len(rows), np.int64)
    extension().rank_weights(agent, keys, rows, depth, FIRST, STEP, LEAST, weights)
    return weights


def _ns(seconds: FloatArray) -> IntArray:
    return np.maximum(np.rint(seconds * NS_PER_S), 0).astype(np.int64)


class WeightsByWait(_Order):
    """Weights of connections that only the shim knows (live.py).

    The size of such a flow is taken to be the bytes sent so far and those written but not sent, so that an order by
    remaining bytes becomes an order by waiting bytes.
    """

    def of(self, live: IntArray, now_ns: int) -> IntArray:
        """Return the weights [n] of live connections, from their `ncc.envs.linux.extension.LIVE_COLUMNS` [.., n]."""
        _, _, host, began_ns, last_left_ns, left, unsent, delivered = np.ascontiguousarray(live)
        age_ns = np.maximum(now_ns - began_ns, 0)
        left = np.maximum(left, delivered)  # bytes sent again and acknowledged twice make `left` too small
        return self._weights(
            host,
            began_ns,
            age_ns=age_ns,
            waited_ns=np.minimum(np.maximum(now_ns - last_left_ns, 0), age_ns),
            size_bytes=np.maximum(left + unsent, 1),
            left_bytes=left,
            delivered_bytes=delivered,
        )
