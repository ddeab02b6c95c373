# SPDX-License-Identifier: BSD-3-Clause
"""Compare learners by what their policies are worth and cost.

Finished trainings are kept. The same command starts an interrupted one again from the beginning, because it is timed.
"""

from typing import Any

from ncc.cli.mains import run_main


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Do the trainings that are missing, summarise all of them, and write the page."""
    # Imported late: `--help` does not need these modules.
    from ncc.study.learners import LearnersSpec, page, run_learners
    from ncc.study.mains import resumable
    from ncc.study.page import write_study

    spec = LearnersSpec.from_plain(plain)
    with resumable("Finished trainings"):
        summary = run_learners(spec, " ".join(["ncc learners", *overrides]))
    write_study(summary, page(summary), (spec.out, spec.docs), 1)


if __name__ == "__main__":
    run_main("learners", main)
