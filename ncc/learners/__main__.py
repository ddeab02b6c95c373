# SPDX-License-Identifier: BSD-3-Clause
"""Compare learners by equal epochs and by equal time.

Finished trainings are kept. One that was interrupted is begun again by the same command, for its time counts.
"""

from pathlib import Path
from typing import Any

from ncc.cli import run_main


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Train what is not there yet, summarise, write."""
    # Imported here: `--help` answers without what only a run needs.
    from ncc.learners.page import write
    from ncc.learners.run import run_learners
    from ncc.learners.spec import LearnersSpec

    spec = LearnersSpec.from_plain(plain)
    command = " ".join(["ncc learners", *overrides])
    try:
        summary = run_learners(spec, command)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "Interrupted. Finished trainings are kept; the same command goes on from there."
        ) from None
    folders = [Path(spec.out), *([Path(spec.docs)] if spec.docs else [])]
    for folder in folders:
        write(summary, folder)
    print(f"Written to {', '.join(map(str, folders))}")


if __name__ == "__main__":
    run_main("learners", main)
