# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of packetsim against htsim, the simulator of NDP, EQDS and Swift, on the same star of DCTCP flows.

htsim is built from a checkout that the user names, with its own Makefile, in a temporary folder. It has no program for
a star of DCTCP flows, so htsim_star.cc makes one from its queues, pipes and DCTCP. Both simulators carry the same bytes
through a port that marks and is never idle, and nothing is lost. htsim acknowledges every packet, packetsim every
second one.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import cast

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.topologies import ManyToOne
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.workers import usable_cpus
from ncc.study.bench import SEED, Figures, in_turn, over
from ncc.study.bench.packetsim import HOSTS, cpu_s, incast

SOURCE = "a clone of github.com/Broadcom/csg-htsim"
STAR = Path(__file__).with_name("htsim_star.cc")
LAST = re.compile(r"\ndelivered (\d+) cpu_s ([0-9.e+-]+)\n$")
"""Pattern of the last line that the program prints."""


def over_htsim(flow_pkts: int, repeats: int, checkout: Path) -> Figures:
    """Measure the delivered packets per CPU second of packetsim, divided by htsim's. Building networks is not timed.

    Each of the 16 flows has `flow_pkts` packets; `checkout` is the folder with htsim's sources. `DatapathError` if
    htsim cannot be built, or does not deliver all flows.
    """
    scenario = incast(flow_pkts)
    flows, topology = scenario.flows(SEED), cast(ManyToOne, scenario.topology)
    wanted = [HOSTS, flow_pkts, scenario.transport.mtu_bytes, topology.rate_bps, topology.delay_s * 1e9]
    wanted += [topology.buffer_bytes, topology.mark_threshold_bytes]
    with tempfile.TemporaryDirectory(prefix="ncc-htsim-") as folder:
        command = [str(_build(checkout, Path(folder))), *(f"{value:.0f}" for value in wanted)]
        packetsim, htsim = in_turn(
            repeats,
            lambda: 1 / cpu_s(PacketsimDatapath, scenario, flows),
            lambda: 1 / _star_cpu_s(command),
        )
    return {"ratio": over(packetsim, htsim)}


def require_checkout(folder: Path) -> None:
    """Raise `ConfigError` unless the folder has htsim's sources."""
    if missing := [name for name in ("sim/Makefile", "sim/dctcp.h") if not (folder / name).is_file()]:
        raise ConfigError(f"{folder} is no checkout of htsim, it has no {missing[0]}: name the folder of {SOURCE}")


def _build(checkout: Path, folder: Path) -> Path:
    """Copy htsim's sources to `folder`, and build its library and the star there; return the path of the program."""
    sources = checkout / "sim"
    for source in (STAR, *sources.glob("*.h"), *sources.glob("*.cpp"), sources / "Makefile"):
        shutil.copy(source, folder)
    compiler = os.environ.get("CXX", "g++")
    # A make that calls this program sets variables for itself, which would disturb the build.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    variables["LC_ALL"] = "C"
    for command in (
        ["make", f"-j{usable_cpus()}", f"CC={compiler}", "libhtsim.a"],
        [*shlex.split(compiler), "-O3", "-std=c++11", "-I.", STAR.name, "libhtsim.a", "-o", "star"],
    ):
        try:
            done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        except OSError as error:
            raise DatapathError(f"htsim cannot be built: {command[0]} does not start ({error.strerror})") from None
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise DatapathError(f"htsim in {checkout} cannot be built: {(errors or ['make says nothing'])[0].strip()}")
    return folder / "star"


def _star_cpu_s(command: list[str]) -> float:
    """Run the star; return htsim's CPU seconds until all flows are delivered, without the building of the network."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = LAST.search(done.stdout)
    if done.returncode or not last or int(last[1]) != HOSTS:
        delivered = last[1] if last else "no word"
        raise DatapathError(f"htsim's star ended with status {done.returncode}, {delivered} of {HOSTS} flows delivered")
    return float(last[2])
