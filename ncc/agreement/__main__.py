# SPDX-License-Identifier: BSD-3-Clause
"""Compare two datapaths and write docs/agreement."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ncc.core.errors import ConfigError, NccError

PACE = "full: 10 seeds of 7 scenarios, for each controller minutes on two cores; quick: seconds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and write; 0 if every bound holds, 3 if not, 2 for settings that cannot be used, 1 if a run failed."""
    options = _parser().parse_args(arguments)
    console = Console()
    try:
        return 0 if _report(options, console) else 3
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        console.print("Interrupted. Finished runs are kept; the same command goes on from there.")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ncc agreement", description=__doc__)
    parser.add_argument("--preset", choices=("quick", "full"), default="full", help=PACE)
    parser.add_argument("--ours", default="packetsim", help="the datapath that is judged")
    parser.add_argument("--reference", default="ns3", help="the datapath that it is judged by")
    parser.add_argument("--controllers", nargs="+", default=[], help="of baselines/; all if none is named")
    parser.add_argument("--cases", nargs="+", default=[], help="names of loaded cases; all if none is named")
    parser.add_argument("--seeds", type=int, help="in place of the preset's")
    parser.add_argument("--duration", type=float, help="seconds of arrivals, in place of the preset's")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--keep", nargs="+", default=[], help="datapaths whose runs are kept though they were rebuilt")
    parser.add_argument("--runs", type=Path, default=Path("runs/agreement"), help="where runs are kept")
    parser.add_argument(
        "--out", type=Path, help="where the report goes; docs/agreement, or <runs>/<preset> if not full"
    )
    return parser


def _report(options: argparse.Namespace, console: Console) -> bool:
    # Imported here: --help answers without what only a comparison needs.
    from ncc.agreement.cases import PRESETS, baseline_controllers, load_cases
    from ncc.agreement.figures import draw
    from ncc.agreement.page import write_pages
    from ncc.agreement.report import Report, compare_runs, origins
    from ncc.agreement.runs import do_runs, sides
    from ncc.agreement.small import compare_small
    from ncc.core.errors import UnknownNameError
    from ncc.harness.manifest import provenance

    began, made = time.perf_counter(), provenance()
    preset = PRESETS[options.preset].changed(seeds=options.seeds, duration_s=options.duration)
    who = sides(options.ours, options.reference)
    controllers = baseline_controllers(tuple(options.controllers))
    cases = load_cases(preset)
    if unknown := set(options.cases) - {case.name for case in cases}:
        raise UnknownNameError("case", min(unknown), [case.name for case in cases])
    cases = [case for case in cases if case.name in options.cases or not options.cases]
    names, seeds = tuple(c.name for c in controllers), tuple(range(preset.seeds))
    small = tuple(compare_small(who[0].factory(), who[1].factory(), names))
    folder = options.runs / preset.name
    runs = do_runs(cases, who, controllers, seeds, folder, workers=options.workers, keep=options.keep)
    with console.status("comparing"):
        compared = tuple(compare_runs(cases, names, who, runs))
        made_of, cpu_s = origins(runs)
        report = Report(
            ours=options.ours,
            reference=options.reference,
            preset=preset.name,
            controllers=names,
            seeds=seeds,
            small=small,
            compared=compared,
            provenance=made,
            made_of=made_of,
            cpu_s=cpu_s,
            wall_s=time.perf_counter() - began,
        )
        out = options.out or (Path("docs/agreement") if preset == PRESETS["full"] else folder / "report")
        out.mkdir(parents=True, exist_ok=True)
        draw(report, out)
        write_pages(report, out)
    small_out = sum(not row.inside for row in small)
    load_out, judged = (sum(c.count(verdict) for c in compared) for verdict in ("outside", "inside"))
    console.print(
        f"Small cases: {small_out} of {len(small)} flows outside. Under load: {load_out} of {load_out + judged} "
        f"figures outside. Written to {out}.",
        soft_wrap=True,
    )
    return report.agrees


if __name__ == "__main__":
    raise SystemExit(main())
