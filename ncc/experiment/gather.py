# SPDX-License-Identifier: BSD-3-Clause
"""From runs to documents: the newest complete result of each experiment and datapath, kept as a small JSON file."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from ncc.core.errors import ResultError
from ncc.experiment.result import DIRTY, FIGURE, JSON, read_result
from ncc.harness.atomic import replacing, write_text

FORMAT = 1
ROW_DEPTH = 4
"""Of a cell: file, results, datapath, cells, cell."""
Results = dict[str, dict[str, Any]]
"""`Result.to_dict` by datapath."""


def figure_name(name: str, datapath: str) -> str:
    """The figure's file beside the page."""
    return f"{name}_{datapath}.png"


class Gathered(NamedTuple):
    """What `gather` did."""

    taken: list[str]
    """By experiment and datapath."""
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
        with replacing(out / figure_name(name, datapath)) as temporary:
            shutil.copyfile(path.parent / FIGURE, temporary)
        kept[datapath] = found
        plain = {"format": FORMAT, "name": name, "results": dict(sorted(kept.items()))}
        write_text(out / f"{name}.json", _text(plain))
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
    """What is kept in `out`, by experiment."""
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


def _text(plain: dict[str, Any]) -> str:
    """JSON with a line per cell and per check, so that a change of one number is a change of one line."""
    rows: dict[str, str] = {}

    def held(value: Any, depth: int) -> Any:
        if depth == ROW_DEPTH and isinstance(value, (dict, list)):
            mark = f"row {len(rows)} of {id(rows)}"
            rows[json.dumps(mark)] = json.dumps(value, allow_nan=False)
            return mark
        if isinstance(value, dict):
            return {key: held(part, depth + 1) for key, part in value.items()}
        return [held(part, depth + 1) for part in value] if isinstance(value, list) else value

    lines = json.dumps(held(plain, 0), indent=1, allow_nan=False).splitlines()
    for i, line in enumerate(lines):
        bare = line.strip().rstrip(",")
        mark = bare if bare in rows else bare.split(": ", 1)[-1]
        if mark in rows:
            lines[i] = line.replace(mark, rows[mark])
    return "\n".join(lines) + "\n"
