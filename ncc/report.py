# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.report``: gather the experiments' results, and write them as one page, docs/experiments/."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ncc.core.errors import ConfigError, NccError

if TYPE_CHECKING:
    from ncc.experiment.gather import Results


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather and write; 0, or 2 for settings that cannot be used, 1 for results that cannot be read."""
    options = _parser().parse_args(arguments)
    console = Console(soft_wrap=True)
    try:
        _report(options, console)
    except NccError as error:
        console.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ncc.report", description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/experiments"), help="where ncc.evaluate left results")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments"), help="where the page and its tables are")
    return parser


def _report(options: argparse.Namespace, console: Console) -> None:
    # Imported here: --help answers without what only a report needs.
    from ncc.compose import experiment_names
    from ncc.experiment.gather import gather, read_all
    from ncc.experiment.page import html_page, markdown_page
    from ncc.harness.atomic import write_text

    taken = gather(options.runs, options.out)
    found = read_all(options.out)
    if not found:
        raise ConfigError(
            f"no complete result below {options.runs}, and none in {options.out}: run "
            "python -m ncc.evaluate experiment=<name> preset=full first"
        )
    names = experiment_names()
    page = markdown_page(found, _stale(found), [name for name in names if name not in found])
    write_text(options.out / "README.md", page)
    write_text(options.out / "index.html", html_page(page))
    for what in taken:
        console.print(f"New: {what}", highlight=False)
    for results in found.values():
        for datapath, result in results.items():
            console.print(f"{result['name']} on {datapath}: {result['verdict']}", highlight=False, markup=False)
    console.print(f"Written to {options.out}", highlight=False)


def _stale(found: "Mapping[str, Results]") -> dict[str, str]:
    """Experiments whose YAML says something else than what was run."""
    from ncc.compose import experiment_names
    from ncc.experiment.load import source_digest

    why = {}
    known = experiment_names()
    for name, results in found.items():
        if name not in known:
            why[name] = "This experiment is in configs/experiment no more."
        elif old := [datapath for datapath, result in results.items() if result["source"] != source_digest(name)]:
            why[name] = f"The experiment has changed since it was run on {', '.join(old)}; run it again."
    return why


if __name__ == "__main__":
    raise SystemExit(main())
