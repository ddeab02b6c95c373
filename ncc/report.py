# SPDX-License-Identifier: BSD-3-Clause
"""Write finished runs as one self-contained HTML page.

Without ``run=[<folder>, ...]``: gather the experiments' results into docs/experiments.
"""

import sys
from typing import Any


def main(plain: dict[str, Any], _: list[str]) -> None:
    """Read the runs, write their page and print its path."""
    # Imported late: `--help` does not need these modules.
    from ncc.core.value import from_dict
    from ncc.results.report.write import ReportSpec, figures_beside, write_report

    listed = {key: [plain[key]] for key in ("run", "figures") if isinstance(plain[key], str)}
    spec = from_dict(ReportSpec, {**plain, **listed}, "configuration")
    path = write_report(spec)
    print(f"{path}: open it in any browser")
    print(f"Figures: {figures_beside(path)}" if spec.figures else "Each figure as a file too: add figures=pdf")


if __name__ == "__main__":
    if not any(("=" in word and not word.startswith("-")) or word in ("-h", "--help") for word in sys.argv[1:]):
        from ncc.study.report import main as experiments

        raise SystemExit(experiments())
    from ncc.cli.mains import run_main

    run_main("report", main)
