# SPDX-License-Identifier: BSD-3-Clause
"""Gather the experiments' results, and write them as one page, docs/experiments/."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ncc.core.errors import ConfigError, NccError

if TYPE_CHECKING:
    from ncc.study.gather import Results
    from ncc.study.load import Loaded


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather and write; exit status 2 for unusable settings, 1 for results that cannot be read or published."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        refused = _report(options, console)
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    for why in refused:
        console.print(f"error: {why}", style="red", highlight=False, markup=False)
    return 1 if refused else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ncc report",
        description=__doc__,
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/experiments"), help="where ncc.evaluate left results")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments"), help="where the page and its tables are")
    return parser


def _report(options: argparse.Namespace, console: Console) -> list[str]:
    """Write the page; return the reasons why results were left out."""
    # Imported late, so that `--help` does not load what only a report needs
    from ncc.compose import experiment_names
    from ncc.harness.atomic import write_text
    from ncc.study.experiments_page import html_page, markdown_page
    from ncc.study.gather import gather, read_all
    from ncc.study.load import load_experiment

    taken, refused = gather(options.runs, options.out)
    found = read_all(options.out)
    if not found and refused:
        return refused
    if not found:
        raise ConfigError(
            f"no complete result below {options.runs}, and none in {options.out}: run "
            "ncc evaluate experiment=<name> preset=full first"
        )
    names = experiment_names()
    loaded = {name: load_experiment(name) for name in found if name in names}
    page = markdown_page(
        found,
        stale(found, loaded),
        [name for name in names if name not in found],
        {name: experiment for name, (experiment, _) in loaded.items()},
    )
    write_text(options.out / "README.md", page)
    write_text(options.out / "index.html", html_page(page))
    for what in taken:
        console.print(f"New: {what}", highlight=False)
    for results in found.values():
        for datapath, result in results.items():
            console.print(f"{result['name']} on {datapath}: {result['verdict']}", highlight=False, markup=False)
    console.print(f"Written to {options.out}", highlight=False)
    return refused


def stale(found: "Mapping[str, Results]", loaded: "Mapping[str, Loaded]") -> dict[str, str]:
    """Find experiments whose configuration has changed since they were run, with the reason for each.

    Args:
        loaded: current configurations of the experiments.
    """
    from ncc.study.load import runs_digest, source_digest
    from ncc.study.points import grid_of
    from ncc.study.result import FULL

    why = {}
    for name, results in found.items():
        if name not in loaded:
            why[name] = "This experiment is in configs/experiment no more."
            continue
        now = {"runs": runs_digest(grid_of(name, *loaded[name], FULL)), "source": source_digest(name)}
        keys = {datapath: "runs" if "runs" in result else "source" for datapath, result in results.items()}
        if old := [datapath for datapath, key in keys.items() if results[datapath][key] != now[key]]:
            why[name] = f"The experiment has changed since it was run on {', '.join(old)}; run it again."
    return why
