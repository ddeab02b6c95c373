# SPDX-License-Identifier: BSD-3-Clause
"""Compare two datapaths and write docs/agreement."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ncc.core.options import Parser, exit_status, typed
from ncc.core.value import Count

PACE = "full: 10 seeds of 7 scenarios, for each controller minutes on two cores; quick: seconds"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the datapaths, write the report, and return the exit status.

    It is 0 if all is equal and 3 if not, 2 for unusable settings, and 1 if a run failed.
    """
    return exit_status(lambda: _report(_parser().parse_args(arguments)))


def _parser() -> Parser:
    parser = Parser(prog="ncc agreement", description=__doc__)
    parser.add_argument("--preset", choices=("quick", "full"), default="full", help=PACE)
    parser.add_argument("--ours", default="packetsim", help="the datapath that is judged")
    parser.add_argument("--reference", default="ns3", help="the datapath that it is judged by")
    parser.add_argument("--controllers", nargs="+", default=[], help="of baselines/; all if none is named")
    parser.add_argument("--cases", nargs="+", default=[], help="names of loaded cases; all if none is named")
    parser.add_argument("--workers", type=typed(Count), default=2, help="runs at a time, each a process")
    parser.add_argument("--runs", type=Path, default=Path("runs/agreement"), help="where runs are kept")
    parser.add_argument(
        "--out", type=Path, help="where the report goes; docs/agreement, or <runs>/<preset>/report if not full"
    )
    return parser


def _report(options: argparse.Namespace) -> int:
    # Imported late: `--help` does not need these modules.
    from ncc.harness.atomic import write_text
    from ncc.harness.pool import Processes
    from ncc.study.agreement.cases import PRESETS, baseline_controllers
    from ncc.study.agreement.pages import page
    from ncc.study.agreement.run import run_agreement
    from ncc.study.mains import resumable
    from ncc.study.page import JSON, README, json_text

    called = options.preset
    folder = options.runs / called
    out = options.out or (Path("docs/agreement") if called == "full" else folder / "report")
    with resumable("Finished runs"):
        summary = run_agreement(
            ours=options.ours,
            reference=options.reference,
            preset=PRESETS[called],
            called=called,
            controllers=baseline_controllers(tuple(options.controllers)),
            cases=options.cases,
            folder=folder,
            executor=Processes(options.workers),
        )
    write_text(out / JSON, json_text(summary, 2))
    write_text(out / README, page(summary))
    print(f"Written to {out}")
    small, load = summary["small"], summary["load"]
    print(
        f"Equal to the nanosecond: {sum(row['same'] for row in small)} of {len(small)} flows of small cases, and "
        f"{sum(row['flows_same'] for row in load)} of {sum(row['n_flows'] for row in load)} under load."
    )
    return 0 if summary["agrees"] else 3


if __name__ == "__main__":
    raise SystemExit(main())
