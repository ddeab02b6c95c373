# SPDX-License-Identifier: BSD-3-Clause
"""``python -m ncc.train``: train an agent, then judge it beside classical controllers on flows it has never met."""

from datetime import datetime
from pathlib import Path
from typing import Any

from ncc.cli import run_main
from ncc.core.errors import ConfigError


def main(plain: dict[str, Any], overrides: list[str]) -> None:
    """Train, evaluate, report; or continue a run that was interrupted."""
    # Imported here, and training only once the plan is known to be good: `--help` and bad input answer at once.
    from ncc.plan import TrainPlan

    resume = plain["resume"]
    if resume is not None:
        if others := [o for o in overrides if not o.startswith("resume=")]:
            raise ConfigError(f"resume continues a run with its own configuration; leave out {', '.join(others)}")
        plan, folder = TrainPlan.load(Path(resume)), Path(resume)
    else:
        plan = TrainPlan.from_plain({key: value for key, value in plain.items() if key not in ("resume", "out")})
        folder = Path(plain["out"]) if plain["out"] else _new_folder(plain)

    from ncc.training import train

    train(plan, folder, resume=resume is not None)


def _new_folder(plain: dict[str, Any]) -> Path:
    """runs/<date>_<time>_<scenario>_<agent>_s<seed>, numbered where it exists already."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    name = f"{stamp}_{plain['scenario']['name']}_{plain['agent']['learner']}_s{plain['seed']}"
    folders = (Path("runs") / (name if i == 0 else f"{name}_{i}") for i in range(1000))
    return next(folder for folder in folders if not folder.exists())


if __name__ == "__main__":
    run_main("train", main)
