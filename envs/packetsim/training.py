# SPDX-License-Identifier: BSD-3-Clause
"""Runs that show a compiler which ways through packetsim are taken; `packetsim.cmake` calls this file.

It needs nothing but Python's own library, because ncc is being built when it runs.
"""

import importlib.util
import math
import random
import sys
from array import array
from pathlib import Path
from typing import Any

LINK = {"rate_bps": 1e10, "delay_ns": 10_000}
PORT = {"buffer_bytes": 400_000, "threshold_bytes": 97_500}
PERIODS, PERIOD_NS = 40, 1_000_000


def filled(struct: Any, fields: dict[str, Any]) -> Any:
    """Return a struct of the module with these fields set."""
    for name, value in fields.items():
        setattr(struct, name, value)
    return struct


def fabric(module: Any, hosts: int, leaves: int, spines: int, port: dict[str, Any]) -> Any:
    """Make a leaf-spine network, or a star of one switch with `spines` 0."""
    spec = module.Spec()
    nodes = hosts + leaves + spines
    spec.is_host = [node < hosts for node in range(nodes)]
    ends = [(host, hosts + host % leaves) for host in range(hosts)]
    ends += [(hosts + leaf, hosts + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    host_port, switch_port = filled(module.QueueSpec(), {"buffer_bytes": -1}), filled(module.QueueSpec(), port)
    spec.links = []
    for a, b in ends:
        queues = [host_port if a < hosts else switch_port, switch_port]
        spec.links += [filled(module.LinkSpec(), {**LINK, "a": a, "b": b, "queue": queues})]
    spec.transport, spec.period_ns, spec.agents = "dctcp", PERIOD_NS, list(range(hosts))
    return spec


def runs(module: Any) -> list[tuple[Any, list[tuple[int, int, int, int]]]]:
    """Return networks with flows of (start in ns, source, destination, bytes)."""
    draw = random.Random(1)
    long = [(0, 1 + i, 0, 20_000_000) for i in range(16)]
    start_ns, mixed = 0, []
    while start_ns < PERIODS * PERIOD_NS:
        src, dst = draw.sample(range(16), 2)
        mixed.append((start_ns, src, dst, round(math.exp(draw.uniform(math.log(1e3), math.log(3e7))))))
        start_ns += round(draw.expovariate(1 / 100e3))
    shared = {**PORT, "pool": 0}
    networks: list[tuple[Any, list[tuple[int, int, int, int]], dict[str, Any]]] = [
        (fabric(module, 17, 1, 0, PORT), long, {"modern": False}),
        (fabric(module, 16, 4, 4, PORT), mixed, {"modern": True, "order": "srpt"}),
        (fabric(module, 16, 4, 4, {**PORT, "buffer_bytes": 60_000}), mixed, {"modern": True}),
        (fabric(module, 16, 4, 4, shared), mixed, {"modern": False}),
    ]
    for spec, _, fields in networks:
        filled(spec, fields)
    networks[-1][0].pools = [filled(module.PoolSpec(), {"size_bytes": 1_000_000, "alpha": 1.0})]
    return [(spec, flows) for spec, flows, _ in networks]


def main(path: Path) -> None:
    """Load the module and run every network."""
    at = importlib.util.spec_from_file_location("_packetsim", path)
    if at is None or at.loader is None:
        raise ImportError(f"{path} is no extension module")
    module = importlib.util.module_from_spec(at)
    at.loader.exec_module(module)
    for spec, flows in runs(module):
        spec.set_flows(*(array("q", column) for column in zip(*flows, strict=True)))
        network = module.Network(spec)
        for period in range(PERIODS):
            limit_bps = math.inf if period % 4 else 5e9
            network.step(array("d", [limit_bps] * len(spec.agents)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
