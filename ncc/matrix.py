# SPDX-License-Identifier: BSD-3-Clause
"""Run every controller in every kind of network.

Exit status 1 if a run must not be used, say because a flow was not delivered; such runs are named.
"""

from typing import Any

from ncc.cli.mains import run_main


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Check all settings, do the runs that are missing, and write the page."""
    # Imported late: `--help` does not need these modules.
    from ncc.study.mains import resumable
    from ncc.study.matrix import DEPTH, Matrix, page, run_matrix
    from ncc.study.page import write_study

    matrix = Matrix.from_plain(plain)
    with resumable("Finished runs"):
        summary = run_matrix(matrix, plain, " ".join(["ncc matrix", *overrides]))
    write_study(summary, page(summary), (matrix.spec.out, matrix.spec.docs), DEPTH)


if __name__ == "__main__":
    run_main("matrix", main)
