# SPDX-License-Identifier: BSD-3-Clause
"""Gather the experiments' results into docs/experiments, and write its pages; or print all numbers of experiments."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.options import Parser, exit_status
from ncc.harness.atomic import replacing, write_text
from ncc.run.compose import experiment_names
from ncc.study.experiments_page import WRITTEN, Results, full_tables, pages
from ncc.study.load import Loaded, load_experiment, runs_digest
from ncc.study.page import json_text
from ncc.study.points import grid_of
from ncc.study.result import DIRTY, FIGURE, FULL, JSON, read_result

FORMAT = 1
ROW_DEPTH = 4
"""Number of outer levels of a file whose entries have a line each: file, results, datapath, cells."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather results and write the pages.

    Returns:
        The exit status: 1 if a result was refused, otherwise that of `ncc.core.options.exit_status`.
    """
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc report", description=__doc__)
    parser.add_argument("experiments", nargs="*", help="print every number of these, and write nothing")
    parser.add_argument("--runs", type=Path, default=Path("runs/experiments"), help="where ncc evaluate left results")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments"), help="where the pages and results are")
    options = parser.parse_args(arguments)
    if options.experiments:
        print(tables(options.experiments, options.out), end="")
        return 0
    return _report(options.runs, options.out)


def tables(names: Sequence[str], out: Path) -> str:
    """Make tables of all numbers of some experiments, as Markdown.

    Raises:
        UnknownNameError: an experiment has no result in `out`.
    """
    results = read_all(out)
    if unknown := [name for name in names if name not in results]:
        raise UnknownNameError("experiment with a result", unknown[0], results)
    return "\n".join(full_tables(name, results[name]) for name in names)


def _report(runs: Path, out: Path) -> int:
    taken, refused = gather(runs, out)
    published = read_all(out)
    if published:
        names = experiment_names()
        if gone := sorted(published.keys() - set(names)):
            raise ResultError(f"{out / gone[0]}.json is of no experiment in configs/experiment: delete it")
        loaded = {name: load_experiment(name) for name in names}
        shown = {name: each for name, (each, _) in loaded.items() if name in published or FULL in each.presets}
        written = pages(published, shown, old_results(published, loaded))
        for name, text in written.items():
            write_text(out / name, text)
        for path in sorted(out.glob("*.md")):
            if path.name not in written and WRITTEN in path.read_text(encoding="utf-8"):
                path.unlink()
                print(f"Removed: {path}, as none of its experiments has a result")
        for what in taken:
            print(f"New: {what}")
        for results in published.values():
            for datapath, result in results.items():
                print(f"{result['name']} on {datapath}: {result['verdict']}")
        print(f"Written to {out}")
    elif not refused:
        raise ConfigError(
            f"no complete result below {runs}, and none in {out}: run ncc evaluate experiment=<name> preset=full first"
        )
    for why in refused:
        print(f"error: {why}", file=sys.stderr)
    return 1 if refused else 0


def gather(runs: Path, out: Path) -> tuple[list[str], list[str]]:
    """Copy the results below `runs` into `out`, each with its figure, if they are newer than those there.

    Only results of the full preset with all its seeds are copied. A result of uncommitted code is refused, because it
    cannot be made again.

    Returns:
        The copied results, as `name on datapath`, and a sentence with the remedy for each result that was refused.
    """
    newest: dict[tuple[str, str], tuple[str, Path, dict[str, Any]]] = {}
    dirty: dict[tuple[str, str], tuple[str, Path, dict[str, Any]]] = {}
    for path in sorted(runs.glob(f"*/*/{JSON}")):
        result = read_result(path)
        key = (result["name"], result["datapath"])
        kind = dirty if any(commit.endswith(DIRTY) for commit in result["commits"]) else newest
        if result["complete"] and (key not in kind or result["written_at"] > kind[key][0]):
            kind[key] = (result["written_at"], path, result)
    kept = read_all(out)
    taken: list[str] = []
    for (name, datapath), (written_at, path, result) in newest.items():
        results = kept.setdefault(name, {})
        if datapath in results and results[datapath]["written_at"] >= written_at:
            continue
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / f"{name}_{datapath}.png") as temporary:
            shutil.copyfile(path.parent / FIGURE, temporary)
        results[datapath] = result
        plain = {"format": FORMAT, "name": name, "results": dict(sorted(results.items()))}
        write_text(out / f"{name}.json", json_text(plain, ROW_DEPTH))
        taken.append(f"{name} on {datapath}")
    return taken, [
        f"{name} on {datapath} is left out: runs in {path.parent} were made with changes that are in no commit "
        f"({', '.join(result['commits'])}); commit them, delete that folder, and run "
        f"ncc evaluate experiment={name} preset=full again"
        for (name, datapath), (written_at, path, result) in dirty.items()
        if written_at > kept.get(name, {}).get(datapath, {}).get("written_at", "")
    ]


def read_all(out: Path) -> dict[str, Results]:
    """Read all results in `out`, by experiment and datapath.

    Raises:
        ResultError: a JSON file there was not written by `gather`.
    """
    results: dict[str, Results] = {}
    for path in sorted(out.glob("*.json")):
        try:
            plain = json.loads(path.read_bytes())
            if plain["format"] != FORMAT:
                raise ValueError(f"format {plain['format']}")
            results[path.stem] = plain["results"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultError(f"{path} is no table of an experiment ({error}); delete it and report again") from None
    return results


def old_results(published: Mapping[str, Results], loaded: Mapping[str, Loaded]) -> dict[str, list[str]]:
    """Find outdated results: those of an experiment that is configured differently now.

    Args:
        published: results by experiment and datapath.
        loaded: current configurations by experiment.

    Returns:
        The datapaths with an outdated result, by experiment.
    """
    old = {}
    for name, results in published.items():
        now = runs_digest(grid_of(name, *loaded[name], FULL))
        old[name] = [datapath for datapath, result in results.items() if result.get("runs") != now]
    return {name: datapaths for name, datapaths in old.items() if datapaths}
