# SPDX-License-Identifier: BSD-3-Clause
"""Measure how fast everything is, as ratios within one run.

Ratios of CPU time, taken turn by turn, hold on a busy machine too; rows that say epochs/s, and the groups
learners and protocol, are wall time and need two free cores.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence

from rich.console import Console

from ncc.bench.rows import Row, table
from ncc.core.errors import ConfigError, NccError

Group = Callable[[bool], list[Row]]
"""Measures, quickly or properly."""


def _over_ns3(quick: bool) -> list[Row]:
    from ncc.bench.engine import OverNs3

    return OverNs3(flow_pkts=500 if quick else 1500, repeats=2 if quick else 5).rows()


def _over_bare(quick: bool) -> list[Row]:
    from ncc.bench.engine import OverBare

    return OverBare(flow_pkts=2000 if quick else 20_000, repeats=3 if quick else 9).rows()


def _scale(quick: bool) -> list[Row]:
    from ncc.bench.scale import Scale

    return Scale(repeats=1 if quick else 3).rows()


def _batch(quick: bool) -> list[Row]:
    from ncc.bench.batch import Batch

    return Batch(epochs=50 if quick else 250, repeats=2 if quick else 7).rows()


def _training(quick: bool) -> list[Row]:
    from ncc.bench.learning import Learning

    return Learning(epochs=40 if quick else 500, repeats=1 if quick else 3).rows()


def _environment(quick: bool) -> list[Row]:
    from ncc.bench.environment import Environment
    from ncc.bench.vectors import Vectors
    from ncc.envs.make import env_spec

    spec, repeats = env_spec(), 2 if quick else 5
    vectors = Vectors(spec.scenario, epochs=100 if quick else 300, repeats=repeats).rows()
    return [*vectors, *Environment(spec=spec, epochs=150 if quick else 400, repeats=repeats).rows()]


def _learners(quick: bool) -> list[Row]:
    from ncc.bench.learners import Learners

    return Learners(epochs=20_000 if quick else 100_000, repeats=1 if quick else 3).rows()


def _protocol(quick: bool) -> list[Row]:
    from ncc.bench.protocol import Protocol

    return Protocol(steps=100 if quick else 400, repeats=2 if quick else 5).rows()


GROUPS: dict[str, tuple[str, Group]] = {
    "ns3": ("packetsim over ns-3", _over_ns3),
    "bound": ("packetsim over a bare event loop", _over_bare),
    "scale": ("packetsim from 16 hosts to 1024", _scale),
    "batch": ("Racks of packetsim stepped together", _batch),
    "training": ("Training on packetsim over training on ns-3", _training),
    "learners": ("Learners by what they get through", _learners),
    "environment": ("Gymnasium's vectors on packetsim, and the environment on ns-3", _environment),
    "protocol": ("A step in process and over ns3-gym's protocol", _protocol),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 2 for unknown groups, 1 if there is nothing to measure with."""
    parser = argparse.ArgumentParser(prog="ncc bench", description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats: for a look, not for a claim")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no group {min(unknown)!r}; there are: {', '.join(GROUPS)}")
    console = Console()
    load, began = os.getloadavg()[0], time.perf_counter()
    try:
        for name, (title, measure) in GROUPS.items():
            if name in options.groups or not options.groups:
                with console.status(f"measuring: {name}"):
                    rows = measure(options.quick)
                console.print(table(f"{name}: {title}", rows))
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    cores = len(os.sched_getaffinity(0))
    console.print(
        f"{cores} cores; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after; "
        f"{time.perf_counter() - began:.0f} s. Rows about epochs/s, learners and protocol are wall time: they need two "
        "free cores, the others do not."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
