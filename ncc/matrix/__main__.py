# SPDX-License-Identifier: BSD-3-Clause
"""Run every controller in every kind of network.

Exit status 1 if a run must not be used, say because a flow was not delivered; such runs are named.
"""

from pathlib import Path
from typing import Any

from ncc.cli import run_main


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Check all of it, train what has to be trained, run, write."""
    # Imported here: `--help` answers without what only a run needs.
    from ncc.matrix.page import write
    from ncc.matrix.run import run_matrix
    from ncc.matrix.spec import Matrix

    matrix = Matrix.from_plain(plain)
    command = " ".join(["ncc matrix", *overrides])
    try:
        summary = run_matrix(matrix, plain, command)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Finished runs are kept; the same command goes on from there.") from None
    folders = [Path(matrix.spec.out), *([Path(matrix.spec.docs)] if matrix.spec.docs else [])]
    for folder in folders:
        write(summary, folder)
    print(f"Written to {', '.join(map(str, folders))}")


if __name__ == "__main__":
    run_main("matrix", main)
