# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.bench.memory``: prints how many MB this process has grown at most by a network of 1024 hosts."""

import sys
from pathlib import Path

import numpy as np

from ncc.bench.cases import FABRICS, web_search
from ncc.bench.runs import Simulation
from ncc.bench.scale import many_flows
from ncc.envs.packetsim import PacketsimDatapath

EPOCHS = 3
"""All flows have started after one; then queues are full."""


def _status_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{field}:")))


def main() -> None:
    """Build the network, run it, and print the peak."""
    tiny = "--tiny" in sys.argv
    _, large, smallest = FABRICS["leaf-spine"]
    topology, n = (smallest, 10) if tiny else (large, 100_000)
    PacketsimDatapath.extension()
    before = _status_kib("VmRSS")
    hosts = np.array(topology.build().hosts)
    scenario = web_search(topology, len(hosts), EPOCHS * 1e-3)
    Simulation(PacketsimDatapath, scenario, many_flows(hosts, n)).run(EPOCHS)
    print((_status_kib("VmHWM") - before) * 1024 / 1e6)


if __name__ == "__main__":
    main()
