# SPDX-License-Identifier: BSD-3-Clause
"""Measure how fast everything is, as ratios within one run.

Most rows are ratios of CPU times that are measured in turn, so they hold on a busy machine too. Rows of epochs/s are
wall times and need two free cores.
"""

from collections.abc import Sequence
from pathlib import Path

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.options import Parser, exit_status


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; exit status 0 whatever the figures are, 2 for unknown groups, 1 if a program is missing."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    from ncc.study.bench import GROUPS, measured, table, unmeasured

    parser = Parser(prog="ncc bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(GROUPS)}; all if none is named")
    parser.add_argument("--htsim", type=Path, metavar="FOLDER", help="sources of htsim, for the group htsim")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write all tables to this page, docs/speed.md")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(GROUPS):
        raise UnknownNameError("group", min(unknown), GROUPS)
    if options.groups and options.write:
        raise ConfigError(f"--write writes a page of all groups: leave out {', '.join(options.groups)}")
    # Imported late: `--help` does not need these modules.
    from ncc.harness.atomic import require_writable, write_text
    from ncc.harness.manifest import provenance
    from ncc.study.bench.htsim import SOURCE, require_checkout
    from ncc.study.page import render
    from ncc.study.result import commits_of

    if options.htsim:
        require_checkout(options.htsim)
    if options.write:
        require_writable(options.write)
    made = provenance()
    (commit,) = commits_of([made])
    groups = {}
    for name in options.groups or GROUPS:
        if name == "htsim" and options.htsim is None:
            rows = unmeasured(name)
            print(f"htsim: skipped: name the folder of {SOURCE} with --htsim")
        else:
            rows = measured(name, **({"checkout": options.htsim} if name == "htsim" else {}))
            print(f"{name}: {GROUPS[name]['title']}\n\n{table(rows)}\n", flush=True)
        groups[name] = {"title": GROUPS[name]["title"], "table": table(rows), "rows": rows}
    made_on = f"{made['processor']}, {made['cpus_usable']} cores; commit {commit}, {made['written_at'][:10]}."
    print(made_on)
    if options.write:
        write_text(options.write, render("speed.md.jinja", groups=groups, made_on=made_on))
        print(f"Written to {options.write}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
