# SPDX-License-Identifier: BSD-3-Clause
"""Export of a trained policy, from a run folder or from the package, to a policy file."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import field

from ncc.agents.policy import FORMAT, POLICY_FILE, SUFFIX, MlpPolicy, load_policy, packaged_policy
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.scenario import scenario_from_dict
from ncc.core.value import Name, Positive, Value, from_dict
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec, check_on_hosts, obs_dim
from ncc.envs.ranges import TrustedRanges
from ncc.harness.atomic import write_bytes
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.manifest import Manifest, read_manifest
from ncc.policies.file import packed
from ncc.policies.header import Origin, PolicyHeader, alone
from ncc.policies.limits import table_bounds
from ncc.policies.onnx_model import onnx_model


class ExportSpec(Value, frozen=True):
    """Settings of an export from the command line, without the fallback; either `run` or `policy` is given."""

    run: str | None = None
    """Folder of the training that made the policy."""
    policy: Name | None = None
    """Name of a packaged policy."""
    file: str = POLICY_FILE
    """Policy file within the folder `run`."""
    out: str = POLICY_FILE
    onnx: str | None = None
    overwrite: bool = False
    name: Name | None = None
    period_s: Positive | None = None
    limits: dict[str, float | None] = field(default_factory=dict)
    """Fields of `RateBounds` to change; None leaves the value that the policy has."""
    within: dict[str, Any] | None = None
    """Narrower ranges in which the policy is trusted; only for a policy that multiplies a formula's limits."""
    stack: dict[str, Any] | None = None
    """Keys of the host stack to change from the training's."""

    def check(self) -> None:
        if (self.run is None) == (self.policy is None):
            raise ConfigError(
                "an export takes one policy: name the training that made it, run=<folder>, or else a packaged one, "
                "policy=<name>"
            )


def export(spec: ExportSpec, fallback: Controller | None = None) -> Path:
    """Write a policy file and, if asked for, its ONNX model; each is written completely or not at all.

    Args:
        fallback: controller that hosts run after the agent ends. None: for a packaged policy whose stack is not
            changed, the one that it names; otherwise the stack's transport alone.

    Returns:
        path of the policy file.

    Raises:
        ConfigError: settings cannot be used, a file exists already, or onnx is needed and not installed.
        ResultError: the run cannot be exported, or the file system refused.
    """
    outs = [_new_file("out", spec.out, SUFFIX, spec)]
    if spec.onnx is not None:
        outs.append(_new_file("onnx", spec.onnx, ".onnx", spec))
    header, policy = describe(spec, fallback)
    contents = [packed(header, policy)]
    if spec.onnx is not None:
        contents.append(onnx_model(policy, header.name))
    for out, data in zip(outs, contents, strict=True):
        write_bytes(out, data)
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


def finished_training(run: Path, file: str) -> Manifest:
    """Read the manifest of a finished training in folder `run`, and check that its policy `file` may be used.

    Raises:
        ResultError: the training is unfinished, its files have changed, or it was judged by invalid runs.
        UnknownNameError: the training has no policy of that name; the message lists those that it has.
    """
    manifest = read_manifest(run, "training")
    policies = [name for name in manifest.files if name.endswith(SUFFIX) and "/" not in name]
    if file not in policies:
        raise UnknownNameError(f"policy of {run}", file, policies)
    if not manifest.facts.get("valid", False):
        raise ResultError(f"{run} was judged by runs that must not be used; train again before its policy is used")
    return manifest


def describe(spec: ExportSpec, fallback: Controller | None) -> tuple[PolicyHeader, MlpPolicy]:
    """Make the header of the exported file, and read the policy.

    Raises:
        ConfigError: settings that do not fit the policy.
        ResultError: there is no such policy, or it contradicts its header.
    """
    manifest = None if spec.run is None else finished_training(Path(spec.run), spec.file)
    path = packaged_policy(spec.policy or "") if spec.run is None else Path(spec.run) / spec.file
    policy, meta = load_policy(path)
    wanted = ("observation", "action", "stack", "scenario", "trained", "origin")
    if lacking := [name for name in wanted if not isinstance(meta.get(name), Mapping)]:
        raise ResultError(f"{path} does not say its {', '.join(lacking)}; train again")
    try:
        action = from_dict(ActionSpec, meta["action"], "action")
        observation = from_dict(ObservationSpec, meta["observation"], "observation")
        stack = from_dict(HostStack, meta["stack"], "stack")
        seen = obs_dim(observation, scenario_from_dict(meta["scenario"]))
    except ConfigError as error:
        raise ResultError(f"{path} is no policy of this version of ncc ({error}); train again") from None
    check_on_hosts(observation)
    if (policy.obs_dim, policy.n_actions) != (seen, action.n_outputs):
        raise ResultError(
            f"{path} is a policy for other observations or actions than it says: its weights take "
            f"{policy.obs_dim} numbers to {policy.n_actions} actions, what it says of itself makes {seen} and "
            f"{action.n_outputs}; train again"
        )
    origin = from_dict(Origin, meta["origin"], "origin").to_dict()
    if manifest is not None:
        origin |= {"source": path.resolve().parent.name, "provenance": _without_folder(manifest.provenance)}
        origin["facts"] = {"policy": spec.file, **manifest.facts}
    if spec.within:
        if action.within is None:
            raise ConfigError(f"{path} states no ranges in which it is trusted: leave within out")
        narrower: TrustedRanges = action.within.narrowed(spec.within)
        action = action.replace(within=narrower)
        origin["facts"]["narrowed"] = spec.within
    if spec.stack:
        stack = from_dict(HostStack, {**stack.to_dict(), **spec.stack}, "stack")
        origin["facts"]["stack"] = spec.stack
    if fallback is None and not (spec.stack or spec.run):
        fallback = from_dict(Controller, meta["fallback"], "fallback")
    chosen = {name: value for name, value in spec.limits.items() if value is not None}
    changes = {
        "name": spec.name or meta["name"],
        "action": action.to_dict(),
        "period_s": spec.period_s or meta["period_s"],
        "limits": {**(meta.get("limits") or table_bounds(action).to_dict()), **chosen},
        "stack": stack.to_dict(),
        "fallback": (fallback or alone(stack)).to_dict(),
        "origin": origin,
    }
    shape = {"format": FORMAT, "layers": [weight.shape for weight, _ in policy.layers], "activation": "tanh"}
    return from_dict(PolicyHeader, {**meta, **shape, **changes}, "export"), policy


def _without_folder(made: Mapping[str, Any]) -> dict[str, Any]:
    """Remove `out=` from the command in a provenance, because the folder of a run is a path on one machine only."""
    command = made["command"]
    kept = command and shlex.join(word for word in shlex.split(command) if not word.startswith("out="))
    return {**made, "command": kept}
