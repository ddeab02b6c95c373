# SPDX-License-Identifier: BSD-3-Clause
"""Put the policy of a run into the package, for all evaluations."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from ncc.core.errors import ConfigError
from ncc.core.options import Parser, exit_status
from ncc.core.value import from_dict


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack and say where; 0, or 2 for settings that cannot be used, 1 for a run that cannot be read."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="ncc pack", description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a finished training run")
    parser.add_argument("--name", required=True, help="of the policy: what limit.pretrained of a controller names")
    parser.add_argument("--policy", default="policy.npz", help="which policy of the run (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="another folder than the package's")
    parser.add_argument(
        "--within",
        default="{}",
        help="narrower ranges in which a residual is trusted, as YAML: {uplink_frac: [0.05, 1]}",
    )
    parser.add_argument(
        "--stack",
        default="{}",
        help="what the stack below it has that training's had not, as YAML: {order: srpt, order_params: []}",
    )
    options = parser.parse_args(arguments)
    within, stack = yaml.safe_load(options.within), yaml.safe_load(options.stack)
    if not isinstance(within, dict):
        raise ConfigError(f"--within must be ranges by name, for instance {{hosts: [2, 16]}}; got {options.within}")
    if not isinstance(stack, dict):
        raise ConfigError(f"--stack must be keys of a stack, for instance {{order: srpt}}; got {options.stack}")
    said = pack(options.run, options.name, policy=options.policy, folder=options.out, within=within, stack=stack)
    print(*said, sep="\n")
    return 0


def pack(
    run: Path,
    name: str,
    *,
    policy: str = "policy.npz",
    folder: Path | None = None,
    within: Mapping[str, Any] | None = None,
    stack: Mapping[str, Any] | None = None,
) -> list[str]:
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
    facts = {"policy": policy, **manifest.facts}
    for changed, how in (("narrowed", within), ("stack", stack)):
        if how:
            facts[changed] = dict(how)
    with _changed(run / policy, within or {}, stack or {}) as source:
        path = package_policy(
            source,
            name,
            seed=plan.seed,
            recipe=plan.plain,
            facts=facts,
            provenance={**manifest.provenance, "command": _without_folder(manifest.provenance["command"])},
            folder=folder or FOLDER,
        )
    git = manifest.provenance["git"]
    lines = [f"{path}, trained at commit {git['commit']} with seed {plan.seed}"]
    if git["dirty"] is not False:
        lines.append("Nobody can train it again: that commit is not all that it was trained with (git: dirty).")
    return lines


@contextmanager
def _changed(path: Path, within: Mapping[str, Any], stack: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a policy file that is trusted in narrower ranges, and runs over another stack, than the one of the run.

    It is that file if nothing changes.
    """
    from ncc.agents.policy import load_policy, save_policy
    from ncc.envs.ranges import TrustedRanges
    from ncc.harness.datapath import HostStack

    if not within and not stack:
        yield path
        return
    found, meta = load_policy(path)
    meta = {**meta, "stack": from_dict(HostStack, {**meta["stack"], **stack}, "stack").to_dict()}
    if within:
        stated = meta["action"].get("within")
        if stated is None:
            raise ConfigError(f"{path} states no ranges in which it is trusted: leave --within out")
        narrower = from_dict(TrustedRanges, stated, f"{path}: within").narrowed(within)
        meta["action"] = {**meta["action"], "within": narrower.to_dict()}
    with TemporaryDirectory() as folder:
        made = Path(folder) / path.name
        save_policy(made, found.layers, meta)
        yield made


def _without_folder(command: str | None) -> str | None:
    """The command without `out=`: the folder of a run is a path of one machine."""
    return command and shlex.join(word for word in shlex.split(command) if not word.startswith("out="))


if __name__ == "__main__":
    raise SystemExit(main())
