# SPDX-License-Identifier: BSD-3-Clause
"""Put the policy of a run into the package, for all evaluations."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from ncc.core.options import Parser, exit_status


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack and say where; 0, or 2 for settings that cannot be used, 1 for a run that cannot be read."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc pack", description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a finished training run")
    parser.add_argument("--name", required=True, help="of the policy: what limit.pretrained of a controller names")
    parser.add_argument("--policy", default="policy.npz", help="which policy of the run (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="another folder than the package's")
    options = parser.parse_args(arguments)
    print(*pack(options.run, options.name, policy=options.policy, folder=options.out), sep="\n")
    return 0


def pack(run: Path, name: str, *, policy: str = "policy.npz", folder: Path | None = None) -> list[str]:
    """Pack a run's policy, and return lines that say what was done.

    Raises:
        ConfigError: a name that cannot be used, or the run has no such policy.
        ResultError: no finished training run, or its files changed since.
    """
    # Imported here: --help answers without what only packing needs.
    from ncc.agents.packaged import FOLDER, package_policy
    from ncc.policies.export import finished_training
    from ncc.run.plan import TrainPlan

    manifest = finished_training(run, policy)
    plan = TrainPlan.load(run)
    path = package_policy(
        run / policy,
        name,
        seed=plan.seed,
        recipe=plan.plain,
        facts={"policy": policy, **manifest.facts},
        provenance={**manifest.provenance, "command": _without_folder(manifest.provenance["command"])},
        folder=folder or FOLDER,
    )
    git = manifest.provenance["git"]
    lines = [f"{path}, trained at commit {git['commit']} with seed {plan.seed}"]
    if git["dirty"] is not False:
        lines.append("Nobody can train it again: that commit is not all that it was trained with (git: dirty).")
    return lines


def _without_folder(command: str | None) -> str | None:
    """The command without `out=`: the folder of a run is a path of one machine."""
    return command and shlex.join(word for word in shlex.split(command) if not word.startswith("out="))


if __name__ == "__main__":
    raise SystemExit(main())
