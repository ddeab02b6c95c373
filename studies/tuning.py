# SPDX-License-Identifier: BSD-3-Clause
"""The rule that chooses a tuned set (`ncc.run.controllers`) from a sweep's result.

``python studies/tuning.py <folder>`` prints the set for the sweep in <folder> (experiments `tuning_*`, preset
`sweep`). Settings that cost a controller more than `GOODPUT_LOSS_FRAC` of its goodput in any cell do not count. Of the
others it gets the one with the lowest ratio of its mean FCT to that of DCTCP without settings, as a geometric mean over
cells. Of equal ones (to a thousandth) it gets the one that changes least.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ncc.core.errors import ResultError
from ncc.core.options import Parser, exit_status
from ncc.run.controllers import TunedSet, Tuning
from ncc.study.load import load_experiment
from ncc.study.result import JSON, read_result
from ncc.study.spec import Experiment
from ncc.study.table import At, Table

REFERENCE = "dctcp"
"""Contender with whose FCTs, without settings, all settings are compared."""
CELL, FCT, GOODPUT = "cell", "mean", "goodput"
"""Names in a sweep: its axis of networks, called cells, and its measures of mean FCT and goodput."""
GOODPUT_LOSS_FRAC = 0.02
"""Largest share of its goodput without settings that a setting may cost a contender in any cell."""


def chosen(experiment: Experiment, scenario: Mapping[str, Any], table: Table) -> dict[str, tuple[At, float]]:
    """Choose the best setting of every contender.

    A setting with an undefined value does not count.

    Args:
        experiment: the sweep.
        scenario: its scenario as plain data.
        table: its results.

    Returns:
        By contender: the setting, which has a value for each axis except the one of cells, and the ratio of its mean
        FCT to the reference's, as a geometric mean over cells.

    Raises:
        ResultError: the sweep has no axis of cells, no reference, one of the measures is missing, there is no point at
            which nothing is set, or a contender has no setting that may be chosen.
    """
    if CELL not in table.axes:
        raise ResultError(f"a sweep must have an axis {CELL!r}, the networks that settings are judged on")
    if REFERENCE not in table.contenders or not {FCT, GOODPUT} <= {measure for measure, _, _ in table.values}:
        raise ResultError(f"a sweep must have contender {REFERENCE!r} and measures {FCT!r} and {GOODPUT!r}")
    axes = {name: points for name, points in table.axes.items() if name != CELL}
    settings = list(product(*axes.values()))
    plain = {
        "scenario": scenario,
        "contenders": {name: {"params": c.params} for name, c in experiment.contenders.items()},
    }
    as_is = [s for s in settings if all(_same(plain, experiment.axes[a].at(x)) for a, x in zip(axes, s, strict=True))]
    if not as_is:
        raise ResultError("a sweep must have a point at which every axis leaves the scenario as it is")
    cells = table.axes[CELL]

    def values(measure: str, contender: str, setting: At) -> list[float]:
        point: dict[str, float | str] = dict(zip(axes, setting, strict=True))
        return [table.value(measure, contender, tuple({**point, CELL: cell}[a] for a in table.axes)) for cell in cells]

    fct = values(FCT, REFERENCE, as_is[0])
    best: dict[str, tuple[At, float]] = {}
    for contender in table.contenders:
        least = [(1 - GOODPUT_LOSS_FRAC) * goodput for goodput in values(GOODPUT, contender, as_is[0])]
        allowed = []
        for setting in settings:
            ours = values(FCT, contender, setting)
            if all(a >= b for a, b in zip(values(GOODPUT, contender, setting), least, strict=True)):
                ratio = math.exp(sum(math.log(a / b) for a, b in zip(ours, fct, strict=True)) / len(cells))
                changed = sum(a != b for a, b in zip(setting, as_is[0], strict=True))
                if not math.isnan(ratio):
                    allowed.append((round(ratio, 3), changed, setting))
        if not allowed:
            raise ResultError(f"{contender} has no setting at which all flows finish: give them more time, as drain_s")
        ratio, _, setting = min(allowed)
        best[contender] = setting, ratio
    return best


def _same(plain: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """True if all keys have these values already in `plain`."""

    def at(key: str) -> Any:
        value_at: Any = plain
        for part in key.split("."):
            value_at = value_at.get(part) if isinstance(value_at, Mapping) else None
        return value_at

    return all(at(key) == value for key, value in keys.items())


def tuned_set(experiment: Experiment, scenario: Mapping[str, Any], table: Table) -> TunedSet:
    """Make the tuned set from the settings that are chosen for a sweep."""
    tunings = {}
    for contender, (setting, _) in chosen(experiment, scenario, table).items():
        mine, changes, params = f"contenders.{contender}.params.", {}, {}
        for axis, x in zip((name for name in table.axes if name != CELL), setting, strict=True):
            for key, value in experiment.axes[axis].at(x).items():
                if key.startswith(mine):
                    params[key.removeprefix(mine)] = value
                elif not key.startswith("contenders."):
                    changes[key] = value
        tunings[experiment.contenders[contender].controller] = Tuning(changes=changes, params=params)
    return TunedSet(topology=scenario["topology"]["kind"], controllers=tunings)


def table_of(result: Mapping[str, Any]) -> Table:
    """Make a table from the data of a result. It has means in place of values by seed; NaN if a seed has no value."""
    values: dict[tuple[str, str, At], tuple[float, ...]] = {}
    for cell in result["cells"]:
        whole = cell["n_seeds"] == len(result["seeds"])
        values[cell["measure"], cell["contender"], tuple(cell["at"])] = (cell["value"] if whole else math.nan,)
    axes = {name: tuple(axis["points"]) for name, axis in result["axes"].items()}
    return Table(axes=axes, contenders=tuple(result["contenders"]), values=values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the set; return the exit status (`ncc.core.options.exit_status`)."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python studies/tuning.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="where ncc evaluate left the sweep's result")
    folder = parser.parse_args(arguments).folder
    result = read_result(folder / JSON)
    experiment, scenario = load_experiment(result["name"])
    table = table_of(result)
    command = f"ncc evaluate experiment={result['name']} preset={result['preset']} seeds={len(result['seeds'])}"
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print(f"# Made by `{command}` (commit {', '.join(result['commits'])}),")
    print("# then `python studies/tuning.py <its folder>`. Beside each: its mean FCT over that of DCTCP as it is.")
    ratios = {
        experiment.contenders[name].controller: ratio
        for name, (_, ratio) in chosen(experiment, scenario, table).items()
    }
    found_set = tuned_set(experiment, scenario, table)
    print(f"topology: {found_set.topology}\ncontrollers:")
    for name, tuning in found_set.controllers.items():
        print(f"  {name}: # {ratios[name]:.3f}")
        for part in ("changes", "params"):
            if keys := getattr(tuning, part):
                print(f"    {part}:")
                for key, value in keys.items():
                    print(f"      {key}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
