# SPDX-License-Identifier: BSD-3-Clause
"""Measure how fast everything is, as ratios within one run.

Most rows are ratios of CPU times that are measured in turn, so they hold on a busy machine too. Rows of epochs/s and
the group learners are wall times and need two free cores.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.options import Parser, exit_status
from ncc.study.bench import GROUPS

WALL = "Rows of epochs/s and learners are wall time: they need two free cores, the others do not."
PRESETS = "full: for a claim; short: shows that it runs, in seconds, and its figures mean nothing"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit status 0 whatever the figures are, 2 for unknown groups, 1 if a program is missing."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc bench", description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all if none is named")
    parser.add_argument("--preset", choices=("full", "short"), default="full", help=PRESETS)
    parser.add_argument("--htsim", type=Path, metavar="FOLDER", help="sources of htsim, for the group htsim")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write all tables to this page, docs/speed.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(GROUPS):
        raise UnknownNameError("group", min(unknown), GROUPS)
    if options.groups and options.write:
        raise ConfigError(f"--write writes a page of all groups: leave out {', '.join(options.groups)}")
    groups = [name for name in GROUPS if not options.groups or name in options.groups]
    _measure(groups, options.preset, options.htsim, options.write)
    return 0


def _measure(groups: Sequence[str], preset: str, htsim: Path | None, written: Path | None) -> None:
    # Imported late: `--help` does not need these modules.
    from ncc.harness.atomic import require_writable, write_text
    from ncc.harness.manifest import provenance
    from ncc.study.bench.htsim import SOURCE, require_checkout
    from ncc.study.bench.rows import Row, machine, measured, page, table, unmeasured

    if htsim is not None:
        require_checkout(htsim)
    if written is not None:
        require_writable(written)
    before, began_s = provenance(), time.perf_counter()
    rows: dict[str, list[Row]] = {}
    for name in groups:
        if name == "htsim" and htsim is None:
            rows[name] = unmeasured(name)
            print(f"htsim: skipped: name the folder of {SOURCE} with --htsim")
            continue
        rows[name] = measured(name, preset, **({"checkout": htsim} if name == "htsim" else {}))
        print(f"{name}: {GROUPS[name]['title']}\n\n{table(rows[name])}\n", flush=True)
    made_on = machine(before, time.perf_counter() - began_s)
    print(f"{made_on} {WALL}")
    if written:
        write_text(written, page(rows, preset, made_on))
        print(f"Written to {written}")


if __name__ == "__main__":
    raise SystemExit(main())
