# SPDX-License-Identifier: BSD-3-Clause
"""Train an agent, then compare it with classical controllers.

It is judged on flows that it has never met. ``recipe=<name>`` trains by a recipe, a YAML of configs/recipe;
``recipe=list`` shows them.
"""

from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from ncc.cli.mains import run_main
from ncc.core.errors import ConfigError
from ncc.core.plausible import CONSENT, require_plausible
from ncc.run.compose import agent_name
from ncc.run.config_files import config_paths, list_with_comments


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

    with _folder(plain, plan.scenario.name) as folder:
        train(plan, folder, resume=resume is not None, wandb=plain["wandb"] or "")


def _folder(plain: dict[str, Any], trained_on: str) -> AbstractContextManager[Path]:
    """Folder that a configuration names, or a new one: runs/<date>_<time>_<scenario>_<agent>_s<seed>."""
    if named := plain["resume"] or plain["out"]:
        return nullcontext(Path(named))
    from ncc.run.folders import new_folder

    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    return new_folder(Path("runs"), f"{stamp}_{trained_on}_{agent_name(plain['agent'])}_s{plain['seed']}")


if __name__ == "__main__":
    run_main("train", main)
