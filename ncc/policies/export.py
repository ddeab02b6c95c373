# SPDX-License-Identifier: BSD-3-Clause
"""Exports: a trained policy, from a run folder or from the package, becomes a policy file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ncc
from ncc.agents.packaged import packaged_policy, read_policy_manifest
from ncc.agents.policy import MlpPolicy, load_policy
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.scenario import scenario_from_dict
from ncc.core.value import Name, Positive, Value, from_dict
from ncc.envs.action import ActionSpec
from ncc.envs.entries import action_table, entry_names, formula_table, neighbours_of
from ncc.envs.observation import HIGH, LOW, ObservationSpec, check_on_hosts, obs_dim
from ncc.envs.ranges import TrainedRanges
from ncc.harness.atomic import replacing
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.manifest import Manifest, read_manifest
from ncc.policies.file import SUFFIX, packed
from ncc.policies.header import FORMAT, Origin, PolicyHeader
from ncc.policies.limits import table_bounds
from ncc.policies.onnx_model import onnx_model

TRAINING = ("scenario", "families", "training")
"""Parts of a policy's meta that go into the header as its training."""


class LimitsChosen(Value, frozen=True):
    """Fields of `RateBounds` to change; None: as the action table has it."""

    min_rate_frac: Positive | None = None
    max_rate_frac: Positive | None = None
    rise_ratio: Positive | None = None
    fall_ratio: Positive | None = None


class ExportSpec(Value, frozen=True):
    """An export as asked for on the command line, but for the fallback."""

    run: str | None = None
    policy: Name | None = None
    file: str = "policy.npz"
    out: str = "policy.ncc"
    onnx: str | None = None
    overwrite: bool = False
    name: Name | None = None
    period_s: Positive | None = None
    limits: LimitsChosen = LimitsChosen()

    def check(self) -> None:
        if (self.run is None) == (self.policy is None):
            raise ConfigError(
                "an export takes one policy: name the training that made it, run=<folder>, or else a packaged one, "
                "policy=<name>"
            )


@dataclass(frozen=True)
class Source:
    """A trained policy (`.npz`), its name unless another is chosen, and where it comes from."""

    path: Path
    name: str
    origin: Origin


def export(spec: ExportSpec, fallback: Controller | None = None) -> Path:
    """Write a policy file and, if asked for, its ONNX model: all of each or nothing.

    Args:
        fallback: the controller to which hosts are handed back; None: the transport of the training, alone.

    Raises:
        ConfigError: settings that cannot be used, a file that is there already, or onnx is needed and not installed.
        ResultError: a run that cannot be exported, or the file system refused.
    """
    outs = [_new_file("out", spec.out, SUFFIX, spec)]
    if spec.onnx is not None:
        outs.append(_new_file("onnx", spec.onnx, ".onnx", spec))
    header, policy = describe(spec, find_source(spec), fallback)
    contents = [packed(header, policy)]
    if spec.onnx is not None:
        contents.append(onnx_model(policy, header.name))
    for out, data in zip(outs, contents, strict=True):
        with replacing(out) as temporary:
            temporary.write_bytes(data)
    return outs[0]


def _new_file(option: str, name: str, suffix: str, spec: ExportSpec) -> Path:
    path = Path(name)
    if path.suffix != suffix:
        raise ConfigError(f"{option} must end in {suffix}, got {name}")
    if path.is_dir():
        raise ConfigError(f"{option} names a folder, {path}; name a file")
    if path.exists() and not spec.overwrite:
        raise ConfigError(f"{path} is there already; choose another {option}, or replace it with overwrite=true")
    return path


def find_source(spec: ExportSpec) -> Source:
    """The policy that `run` or `policy` names; errors as `finished_training`, or no such packaged policy."""
    if spec.run is None:
        name = spec.policy or ""
        path = packaged_policy(name)
        known = read_policy_manifest(name)
        made = {name: getattr(known, name) for name in ("seed", "recipe", "facts", "provenance")}
        origin = Origin(source=name, policy_sha256=known.sha256, exported_by=ncc.__version__, **made)
        return Source(path, name, origin)
    run = Path(spec.run)
    manifest = finished_training(run, spec.file)
    recipe = json.loads((run / "config.json").read_bytes())
    origin = Origin(
        source=run.resolve().name,
        policy_sha256=manifest.files[spec.file].sha256,
        seed=recipe["seed"],
        recipe=recipe,
        facts={"policy": spec.file, **manifest.facts},
        provenance=manifest.provenance,
        exported_by=ncc.__version__,
    )
    return Source(run / spec.file, "ncc", origin)


def finished_training(run: Path, file: str) -> Manifest:
    """The manifest of a finished training that has this policy."""
    manifest = read_manifest(run, "training")
    policies = [name for name in manifest.files if name.endswith(".npz") and "/" not in name]
    if file not in policies:
        raise UnknownNameError(f"policy of {run}", file, policies)
    if not manifest.facts.get("valid", False):
        raise ResultError(f"{run} was judged by runs that must not be used; train again before its policy is used")
    return manifest


def describe(spec: ExportSpec, source: Source, fallback: Controller | None) -> tuple[PolicyHeader, MlpPolicy]:
    """The policy, and the header of its file.

    Raises:
        ConfigError: settings that do not go with the policy.
        ResultError: a policy that contradicts itself, or observes otherwise than it says.
    """
    policy, meta = load_policy(source.path)
    wanted = ("observation", "action", "stack", "scenario", "trained")
    if lacking := [name for name in wanted if not isinstance(meta.get(name), Mapping)]:
        raise ResultError(f"{source.path} does not say its {', '.join(lacking)}; train again")
    try:
        observation = from_dict(ObservationSpec, meta["observation"], "observation")
        action = from_dict(ActionSpec, meta["action"], "action")
        stack = from_dict(HostStack, meta["stack"], "stack")
        scenario = scenario_from_dict(meta["scenario"])
        trained = from_dict(TrainedRanges, meta["trained"], "trained")
    except ConfigError as error:
        raise ResultError(f"{source.path} is no policy of this version of ncc ({error}); train again") from None
    check_on_hosts(observation)
    seen = obs_dim(observation, scenario)
    if (policy.obs_dim, policy.n_actions) != (seen, action.n_outputs):
        raise ResultError(
            f"{source.path} is a policy for other observations or actions than it says: its weights take "
            f"{policy.obs_dim} numbers to {policy.n_actions} actions, what it says of itself makes {seen} and "
            f"{action.n_outputs}; train again"
        )
    formula = formula_table(action)
    chosen = {name: value for name, value in spec.limits.to_dict().items() if value is not None}
    header: dict[str, Any] = {
        "format": FORMAT,
        "name": spec.name or source.name,
        "layers": [weight.shape for weight, _ in policy.layers],
        "activation": "tanh",
        "observation": observation.to_dict(),
        "entry_range": (LOW, HIGH),
        "entries": entry_names(observation, policy.obs_dim),
        "neighbours": neighbours_of(observation, policy.obs_dim),
        "action": action.to_dict(),
        "table": None if formula is not None else action_table(action, observation).to_dict(),
        "formula": None if formula is None else formula.to_dict(),
        "period_s": scenario.period_s if spec.period_s is None else spec.period_s,
        "trained": trained.to_dict(),
        "limits": {**table_bounds(action).to_dict(), **chosen},
        "stack": stack.to_dict(),
        "fallback": (fallback or _alone(stack)).to_dict(),
        "training": {part: meta[part] for part in TRAINING if part in meta},
        "origin": source.origin.to_dict(),
    }
    return from_dict(PolicyHeader, header, "export"), policy


def _alone(stack: HostStack) -> Controller:
    alone = stack.replace(order="fifo", order_params=())
    return Controller(name=stack.transport, summary="The transport of the training, alone", stack=alone)
