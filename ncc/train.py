# SPDX-License-Identifier: BSD-3-Clause
"""Train an agent, then compare it with classical controllers.

It is judged on flows that it has never met. ``recipe=<name>`` trains by a recipe, a YAML of configs/recipe;
``recipe=list`` shows them.
"""

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from ncc.cli.mains import run_main
from ncc.core.errors import ConfigError
from ncc.core.value import CONSENT, require_plausible
from ncc.run.compose import agent_name
from ncc.run.config_files import config_paths, list_with_comments

NAMED = {"seed", "scenario", "agent"}
"""Settings that every folder's name has."""


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Train, evaluate and report, or continue an interrupted run."""
    if "recipe=list" in overrides:
        list_with_comments(config_paths("recipe"))
        return
    for key in ("out", "resume"):
        if not isinstance(plain[key], str | None):
            raise ConfigError(f"{key} must be the folder of a training, for instance runs/mine; got {plain[key]}")
    # Imported late, and training only once the plan is known to be good: `--help` and bad input answer at once.
    from ncc.run.plan import TrainPlan, planned

    resume = plain["resume"]
    if resume is not None:
        plan = TrainPlan.load(Path(resume))
    else:
        plan = TrainPlan.from_plain(planned(plain))
        parts = {"scenario": plan.scenario, "agent": plan.learner, "evaluation": plan.evaluation}
        require_plausible(parts, plain[CONSENT])

    from ncc.results.training import train

    with _folder(plain, plan.scenario.name, overrides) as folder:
        train(plan, folder, resume=resume is not None)


def _folder(plain: dict[str, Any], trained_on: str, overrides: Sequence[str]) -> AbstractContextManager[Path]:
    """Folder that a configuration names, or a new one: runs/<date>_<time>_<scenario>_<agent>_s<seed>.

    In a multirun, the name also has the other settings that differ from run to run.
    """
    if named := plain["resume"] or plain["out"]:
        return nullcontext(Path(named))
    from ncc.run.folders import new_folder

    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    name = f"{stamp}_{trained_on}_{agent_name(plain['agent'])}_s{plain['seed']}"
    return new_folder(Path("runs"), name + _differing(overrides))


def _differing(overrides: Sequence[str]) -> str:
    """Settings of one run of a multirun, as text for the name of its folder; seed, scenario and agent stand there."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    words = [word for word in sys.argv[1:] if "=" in word and not word.startswith("-")]
    swept = {each.key_or_group for each in OverridesParser.create().parse_overrides(words) if each.is_sweep_override()}
    settings = [word.lstrip("+").partition("=") for word in overrides]
    shown = [f"_{re.split('[./]', key)[-1]}-{value}" for key, _, value in settings if key in swept - NAMED]
    return re.sub(r"[^\w.+-]+", "-", "".join(shown))


if __name__ == "__main__":
    run_main("train", main)
