# SPDX-License-Identifier: BSD-3-Clause
"""Train once per combination of settings and rank the results.

Trials are kept; the same command goes on from there. Exit status 1 if a trial failed; such trials are named.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ncc.cli import run_main
from ncc.core.errors import ConfigError
from ncc.sweep.space import quoted_list

SPACE = "space."


def main(plain: dict[str, Any], typed: Sequence[str], command: str) -> None:
    """Check all of it, train what is not there yet, rank.

    Args:
        plain: configs/sweep.yaml with what Hydra read of the command line.
        typed: what was typed of `space`, whose keys are no keys of configs/sweep.yaml.
        command: the whole command line.
    """
    # Imported here: `--help` answers without what only a run needs.
    from ncc.core.extras import require_extra
    from ncc.sweep.page import JSON, show
    from ncc.sweep.run import run_sweep
    from ncc.sweep.spec import Sweep

    require_extra("rllib", "ncc sweep", "ray")
    sweep = Sweep.from_plain(plain, dict(map(_entry, typed)))
    try:
        summary = run_sweep(sweep, command)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Trials are kept; the same command goes on from there.") from None
    show(summary)
    print(f"Written to {Path(sweep.spec.out) / JSON}")
    summary.require_no_failures()


def _entry(argument: str) -> tuple[str, Any]:
    """Key and value of `space.<key>=<value>`."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, _, value = argument.removeprefix(SPACE).partition("=")
    try:
        # A key of groups, such as env/reward, is one to Hydra only where it knows the group: the value alone is read.
        read = OverridesParser.create().parse_override(f"value={value}")
    except HydraException:
        raise ConfigError(f"cannot read {argument!r}; write space.<key>=[a, b], in quotes for the shell") from None
    if read.is_sweep_override():
        raise ConfigError(f"space.{key} needs brackets around its values: 'space.{key}=[{value}]'")
    return key, read.value()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    own = [argument for argument in arguments if argument.startswith(SPACE) and "=" in argument]
    sys.argv[1:] = [quoted_list(a) if a.startswith("train=") else a for a in arguments if a not in own]
    run_main("sweep", lambda plain, _: main(plain, own, shlex.join(["ncc", "sweep", *arguments])))
