# SPDX-License-Identifier: BSD-3-Clause
"""The newest complete result of each experiment and datapath, kept as a small JSON file."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from ncc.core.errors import ResultError
from ncc.harness.atomic import replacing, write_text
from ncc.study.page import json_text
from ncc.study.result import DIRTY, FIGURE, JSON, read_result

FORMAT = 1
ROW_DEPTH = 4
"""Levels with a line per entry: file, results, datapath, cells."""
Results = dict[str, dict[str, Any]]
"""`Result.to_dict` by datapath."""


class Gathered(NamedTuple):
    """The outcome of `gather`."""

    taken: list[str]
    """Experiments and datapaths."""
    refused: list[str]
    """A sentence each: which newer result was left, why, and what to do."""


def gather(runs: Path, out: Path) -> Gathered:
    """Take over what is newer below `runs` than in `out`.

    Taken are results of the full preset with all its seeds; a quick one is no result to publish. Refused are those that
    nobody can run again: made by files that no commit has.
    """
    newest: dict[tuple[str, str], tuple[str, Path, dict[str, Any]]] = {}
    dirty: dict[tuple[str, str], tuple[str, Path, dict[str, Any]]] = {}
    for path in sorted(runs.glob(f"*/*/{JSON}")):
        found = read_result(path)
        key = (found["name"], found["datapath"])
        kind = dirty if any(commit.endswith(DIRTY) for commit in found["commits"]) else newest
        if found["complete"] and (key not in kind or found["written_at"] > kind[key][0]):
            kind[key] = (found["written_at"], path, found)
    taken = []
    for (name, datapath), (written_at, path, found) in newest.items():
        kept = read_kept(out / f"{name}.json") if (out / f"{name}.json").exists() else {}
        if datapath in kept and kept[datapath]["written_at"] >= written_at:
            continue
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / f"{name}_{datapath}.png") as temporary:
            shutil.copyfile(path.parent / FIGURE, temporary)
        kept[datapath] = found
        plain = {"format": FORMAT, "name": name, "results": dict(sorted(kept.items()))}
        write_text(out / f"{name}.json", json_text(plain, ROW_DEPTH))
        taken.append(f"{name} on {datapath}")
    kept_at = {
        (name, datapath): kept["written_at"] for name, r in read_all(out).items() for datapath, kept in r.items()
    }
    return Gathered(
        taken,
        [
            f"{name} on {datapath} is not taken over: runs in {path.parent} were made on a tree with changes that no "
            f"commit has ({', '.join(found['commits'])}); commit them, delete that folder, and run "
            f"ncc evaluate experiment={name} preset=full again"
            for (name, datapath), (written_at, path, found) in dirty.items()
            if written_at > kept_at.get((name, datapath), "")
        ],
    )


def read_all(out: Path) -> dict[str, Results]:
    """The results in `out`, by experiment."""
    return {path.stem: read_kept(path) for path in sorted(out.glob("*.json"))}


def read_kept(path: Path) -> Results:
    """One file of `gather`'s; `ResultError` if it is none."""
    try:
        plain = json.loads(path.read_bytes())
        if plain["format"] != FORMAT:
            raise ValueError(f"format {plain['format']}")
        results: Results = plain["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{path} is no table of an experiment ({error}); delete it and report again") from None
    return results
