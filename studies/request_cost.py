# SPDX-License-Identifier: BSD-3-Clause
"""CPU time and memory of a request of 1,000 objects to 3,000 servers (experiment front_ends), in one run of packetsim.

Both are differences between a long and a short run, so that what a run costs without requests does not count. Nobody
decides anything during a run, so periods are long: each keeps 0.3 MB of measurements of all hosts.

Usage: ``python -m studies.request_cost --front fits --requests 300``
"""

import argparse
import resource
import subprocess
import sys

from ncc.core.scenario import scenario_from_dict
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import Unlimited
from ncc.harness.run import run_once
from ncc.run.controllers import load_controller
from ncc.study.load import load_experiment

SHORT = 20
"""Requests of the short run."""
PERIOD_S = 1.0
"""Time between two measurements."""


def cost(front: str, requests: int) -> tuple[float, float]:
    """Run so many requests; return the run's CPU time in seconds, and this process' peak memory in bytes."""
    _, plain = load_experiment("front_ends")
    plain["workload"]["objects"]["requests"] = requests
    plain["period_s"] = plain["duration_s"] = PERIOD_S  # requests end a run, not its duration
    controller = load_controller("newreno").replace(stack=HostStack(transport="newreno", front=front))
    run = run_once(PacketsimDatapath(), scenario_from_dict(plain), controller, Unlimited(), 1, flow_seed=1)
    return run.cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    """Print what a request costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--front", default="fits")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        print(*cost(options.front, options.only))
        return
    measured = []
    for requests in (SHORT, options.requests):  # each in a process of its own, as memory is a peak
        command = [sys.executable, "-m", "studies.request_cost", "--front", options.front, "--only", str(requests)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        measured.append([float(value) for value in said.split()[-2:]])
    cpu_s, memory_bytes = (long - short for short, long in zip(*measured, strict=True))
    n = options.requests - SHORT
    print(f"{options.front}: {1e3 * cpu_s / n:.1f} ms CPU and {memory_bytes / n / 1e6:.2f} MB per request")


if __name__ == "__main__":
    main()
