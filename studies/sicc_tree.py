# SPDX-License-Identifier: BSD-3-Clause
"""Time a front end's plan of SICC: swarms, hubs and the tree of Algorithm 1 (Wang, PhD thesis 2021, figure 3.10).

Each of the servers, 60 to a rack and 10 racks to a router, has 1 to 10 of the objects. The thesis took about 4 ms
for 50,000 servers and less than 1 ms for 10,000, on two cores of 2.5 GHz.

Usage: ``python -m studies.sicc_tree``
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np

from ncc.core.flows import IntArray
from ncc.core.placement import most_hubs, swarms, tree

RACK, RACKS_OF_ROUTER, MOST_OBJECTS = 60, 10, 10
SERVERS = (10_000, 20_000, 30_000, 40_000, 50_000)
BUFFERS_BYTES = (100_000, 12_500)
"""Buffers of the port to the front end: 100 KB, and 100 kbit."""


def planned(at: IntArray, rack_of: IntArray, buffer_bytes: int) -> tuple[IntArray, IntArray]:
    """Plan a request for objects at these servers [n_objects]; return hubs and their parents, both [n_swarms]."""
    hubs, swarm = swarms(at, rack_of)
    most = most_hubs(buffer_bytes, 1e9, 1e9, 510)
    return hubs, tree(np.bincount(swarm, minlength=len(hubs)), most, rack_of[hubs] // RACKS_OF_ROUTER)


def drawn(servers: int, seed: int) -> tuple[IntArray, IntArray]:
    """Draw the servers of the objects of a request, in any order; return them and the rack of each server."""
    rng = np.random.default_rng(seed)
    objects = rng.integers(1, MOST_OBJECTS + 1, servers)
    return rng.permutation(np.repeat(np.arange(servers), objects)), np.arange(servers) // RACK


def main(arguments: Sequence[str] | None = None) -> int:
    """Print CPU times, the median of some requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=15, help="number of requests")
    options = parser.parse_args(arguments)
    for servers in SERVERS:
        for buffer_bytes in BUFFERS_BYTES:
            took_s, parents = [], []
            for seed in range(options.requests):
                at, rack_of = drawn(servers, seed)
                begin_s = time.process_time()
                parents.append(planned(at, rack_of, buffer_bytes)[1])
                took_s.append(time.process_time() - begin_s)
            print(
                f"{servers} servers, {buffer_bytes} bytes of buffer, last of {len(parents)} requests: "
                f"{len(parents[-1])} hubs, of which {int((parents[-1] < 0).sum())} send to the front end; median "
                f"{1e3 * float(np.median(took_s)):.1f} ms"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
