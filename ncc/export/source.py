# SPDX-License-Identifier: BSD-3-Clause
"""What is exported: a policy file with the training that made it, from a run folder or from the package."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ncc
from ncc.agents.packaged import FOLDER, packaged_policy, read_policy_manifest
from ncc.agents.policy import MlpPolicy, load_policy
from ncc.controllers import load_controller
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.core.value import Name, Positive, Value, from_dict
from ncc.deployed.header import FORMAT, KIND, Origin, PolicyHeader
from ncc.deployed.limits import table_bounds
from ncc.envs.action import ActionSpec
from ncc.envs.entries import action_table, entry_names, neighbours_of
from ncc.envs.observation import HIGH, LOW, ObservationSpec, obs_dim
from ncc.envs.trained import TrainedRanges
from ncc.harness.controller import Controller
from ncc.harness.datapath import HostStack
from ncc.harness.manifest import read_manifest
from ncc.plan import TrainPlan

TRAINING = ("scenario", "families", "training")
"""What a policy's meta says of its training."""


class LimitsChosen(Value, frozen=True):
    """`RateBounds` as asked for; None: as the action table has it."""

    min_rate_frac: Positive | None = None
    max_rate_frac: Positive | None = None
    rise_ratio: Positive | None = None
    fall_ratio: Positive | None = None


class ExportSpec(Value, frozen=True):
    """What the command line asked for."""

    run: str | None = None
    policy: Name | None = None
    file: str = "policy.npz"
    out: str = "policy.ncc"
    overwrite: bool = False
    name: Name | None = None
    period_s: Positive | None = None
    limits: LimitsChosen = LimitsChosen()
    fallback: Name | None = None

    def check(self) -> None:
        if (self.run is None) == (self.policy is None):
            raise ConfigError(
                "an export takes one policy: name the training that made it, run=<folder>, or else a packaged one, "
                "policy=<name>"
            )


@dataclass(frozen=True)
class Source:
    """A policy file (`.npz`), the name that it has unless another is chosen, and where it comes from."""

    path: Path
    name: str
    origin: Origin


def find_source(spec: ExportSpec, packaged: Path = FOLDER) -> Source:
    """What `run` or `policy` names.

    Raises:
        UnknownNameError: no such packaged policy, or the run has no such file; the message lists what exists.
        ResultError: no finished training, one whose runs must not be used, or files that changed since.
    """
    if spec.run is None:
        name = spec.policy or ""
        path = packaged_policy(name, packaged)
        vouched = read_policy_manifest(name, packaged)
        origin = Origin(
            source=name,
            policy_sha256=vouched.sha256,
            seed=vouched.seed,
            recipe=vouched.recipe,
            facts=vouched.facts,
            provenance=vouched.provenance,
            exported_by=ncc.__version__,
        )
        return Source(path, name, origin)
    run = Path(spec.run)
    manifest = read_manifest(run, "training")
    policies = [file for file in manifest.files if file.endswith(".npz") and "/" not in file]
    if spec.file not in policies:
        raise UnknownNameError(f"policy of {run}", spec.file, policies)
    if not manifest.facts.get("valid", False):
        raise ResultError(f"{run} was judged by runs that must not be used; train again before exporting its policy")
    plan, path = TrainPlan.load(run), run / spec.file
    origin = Origin(
        source=run.resolve().name,
        policy_sha256=manifest.files[spec.file].sha256,
        seed=plan.seed,
        recipe=plan.plain,
        facts={"policy": spec.file, **manifest.facts},
        provenance=manifest.provenance,
        exported_by=ncc.__version__,
    )
    return Source(path, "ncc", origin)


def describe(spec: ExportSpec, source: Source) -> tuple[PolicyHeader, MlpPolicy]:
    """The policy, and the header of its file.

    Raises:
        ConfigError: settings that do not go with the policy.
        ResultError: a policy that contradicts itself, or observes otherwise than it says.
    """
    policy, meta = load_policy(source.path)
    observation, action, stack, scenario, trained = _parts(source.path, meta)
    seen = obs_dim(observation, scenario)
    if (policy.obs_dim, policy.n_actions) != (seen, action.n_actions):
        raise ResultError(
            f"{source.path} is a policy for other observations or actions than it says: its weights take "
            f"{policy.obs_dim} numbers to {policy.n_actions} actions, what it says of itself makes {seen} and "
            f"{action.n_actions}; train again"
        )
    chosen = {name: value for name, value in spec.limits.to_dict().items() if value is not None}
    header = {
        "kind": KIND,
        "format": FORMAT,
        "name": spec.name or source.name,
        "layers": [weight.shape for weight, _ in policy.layers],
        "activation": "tanh",
        "observation": observation.to_dict(),
        "entry_range": (LOW, HIGH),
        "entries": entry_names(observation, policy.obs_dim),
        "neighbours": neighbours_of(observation, policy.obs_dim),
        "action": action.to_dict(),
        "table": action_table(action, observation).to_dict(),
        "period_s": scenario.period_s if spec.period_s is None else spec.period_s,
        "trained": trained.to_dict(),
        "limits": {**table_bounds(action).to_dict(), **chosen},
        "stack": stack.to_dict(),
        "fallback": _fallback(spec.fallback, stack).to_dict(),
        "training": {part: meta[part] for part in TRAINING if part in meta},
        "origin": source.origin.to_dict(),
    }
    return from_dict(PolicyHeader, header, "export"), policy


def _parts(
    path: Path, meta: Mapping[str, Any]
) -> tuple[ObservationSpec, ActionSpec, HostStack, Scenario, TrainedRanges]:
    wanted = ("observation", "action", "stack", "scenario", "trained")
    if lacking := [name for name in wanted if not isinstance(meta.get(name), Mapping)]:
        raise ResultError(f"{path} does not say its {', '.join(lacking)}; train again")
    try:
        return (
            from_dict(ObservationSpec, meta["observation"], "observation"),
            from_dict(ActionSpec, meta["action"], "action"),
            from_dict(HostStack, meta["stack"], "stack"),
            scenario_from_dict(meta["scenario"]),
            from_dict(TrainedRanges, meta["trained"], "trained"),
        )
    except ConfigError as error:
        raise ResultError(f"{path} is no policy of this version of ncc ({error}); train again") from None


def _fallback(name: str | None, stack: HostStack) -> Controller:
    if name is not None:
        return load_controller(name)
    alone = stack.replace(order="fifo", order_params=())
    return Controller(name=stack.transport, summary="The transport of the training, alone", stack=alone)
