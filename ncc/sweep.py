# SPDX-License-Identifier: BSD-3-Clause
"""Train once per combination of settings and rank the results.

Trials are kept; the same command goes on from there. Exit status 1 if a trial failed; such trials are named.
"""

import sys
from collections.abc import Sequence
from typing import Any

from ncc.cli.mains import run_main
from ncc.study.sweep.space import SPACE, quoted_list


def main(plain: dict[str, Any], typed: Sequence[str]) -> None:
    """Check all settings, do the trainings that are missing, and rank all of them.

    Args:
        plain: configs/sweep.yaml with the overrides that Hydra read.
        typed: arguments about `space`, which Hydra does not read.
    """
    # Imported late: `--help` does not need these modules.
    from ncc.core.extras import require_extra
    from ncc.study.mains import resumable

    require_extra("sweep", "ncc sweep")
    from ncc.study.sweep.page import show
    from ncc.study.sweep.run import require_no_failures, run_sweep
    from ncc.study.sweep.space import typed_entry
    from ncc.study.sweep.spec import Sweep

    sweep = Sweep.from_plain(plain, dict(map(typed_entry, typed)))
    with resumable("Trials"):
        study = run_sweep(sweep)
    show(sweep, study)
    require_no_failures(sweep, study)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    own = [argument for argument in arguments if argument.startswith(SPACE) and "=" in argument]
    sys.argv[1:] = [quoted_list(a) if a.startswith("train=") else a for a in arguments if a not in own]
    run_main("sweep", lambda plain, _: main(plain, own))
