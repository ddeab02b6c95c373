# SPDX-License-Identifier: BSD-3-Clause
"""Rate limiters of controllers, made in the process that runs them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from ncc.agents.policy import (
    PACKAGED,
    UNTRAINED_FILE,
    MlpPolicy,
    NumberPolicy,
    load_policy,
    packaged_names,
    packaged_policy,
)
from ncc.core.errors import ConfigError, ResultError
from ncc.core.extras import require_extra
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.atomic import file_digest
from ncc.harness.controller import ClassLimit, Controller, Formula, HostsLimit, ModelLimit, PolicyLimit
from ncc.harness.datapath import HostStack
from ncc.harness.limiter import RateLimiter, Unlimited
from ncc.harness.receivers import WithReceivers
from ncc.run.own_class import OwnLimiter, source_digest

T = TypeVar("T")


class Decider(Enum):
    """The part of a controller that decides its limits on a scenario.

    The value is a warning for users; it is empty if the controller decides itself.
    """

    ITSELF = ""
    LOCAL = "hosts have the limits of the formula LOCAL"
    LOCAL_OR_NONE = f"{LOCAL}, and none where only a receiver decides"
    RECEIVERS = "hosts have no limits, as they do not know sizes, and receivers alone decide"
    """This replaces LOCAL_OR_NONE if hosts know only backlogs, because the formula would take backlogs for sizes."""


@dataclass(frozen=True)
class LimiterFactory:
    """A factory that makes the rate limiter of a controller in the process that runs it.

    Policies come from the run folder `folder` or, without one, from the package's folder `packaged`. For a scenario the
    packaged policy is `<pretrained>_<nic.knows>` if there is one, for instance `ncc_services`, else `<pretrained>`.
    """

    folder: Path | None
    packaged: Path = PACKAGED

    def __call__(self, controller: Controller, scenario: Scenario) -> RateLimiter:
        limiter, rule = self._limiter(controller, scenario), controller.receivers
        if rule is None:
            return limiter
        decider, _ = self.decider(controller, scenario)
        if decider is Decider.RECEIVERS:
            limiter, rule = Unlimited(), rule.replace(order="arrival")
        return WithReceivers(
            limiter,
            rule.build(),
            # A residual's guard gives the whole port to the host that is first in order.
            counts_held=decider is Decider.ITSELF and self._is_residual(self._serving(controller, scenario)),
            answered=controller.stack.answer_frac is not None,
        )

    def _limiter(self, controller: Controller, scenario: Scenario) -> RateLimiter:
        controller = self._serving(controller, scenario)
        with _named_files(controller):
            match controller.limit:
                case Formula() as formula:
                    return formula.build()
                case ClassLimit() as user_class:
                    return OwnLimiter(user_class.target)
                case ModelLimit() as model:
                    return _model(model, scenario)
                case HostsLimit() as hosts:
                    return self._agents(controller.name, hosts)
                case policy:
                    return self._policy(controller.name, policy, scenario)

    def resolved(self, controller: Controller, scenario: Scenario | None = None) -> Controller:
        """Return the controller with the policy for the scenario, and with the stack that this policy was trained on.

        A controller that uses its own stack keeps it. Without a scenario, the controller keeps the policy that it
        names.
        """
        if isinstance(controller.limit, ModelLimit):
            trained = _trained_with(Path(controller.limit.path)).get("stack")
            return controller if trained is None else controller.over(from_dict(HostStack, trained, "stack"))
        controller = controller if scenario is None else self._serving(controller, scenario)
        if not isinstance(controller.limit, PolicyLimit) or controller.limit.stack == "own":
            return controller
        with _named_files(controller):
            path, _, meta = self._load(controller.name, controller.limit)
        return controller.over(_part(HostStack, meta, "stack", path))

    def _serving(self, controller: Controller, scenario: Scenario) -> Controller:
        """Return the controller with the packaged policy for the knowledge of hosts (`nic.knows`), if there is one."""
        limit = controller.limit
        if not isinstance(limit, PolicyLimit) or not limit.pretrained or self.folder is not None:
            return controller
        name = f"{limit.pretrained}_{scenario.nic.knows}"
        if name not in packaged_names(self.packaged):
            return controller
        return controller.replace(limit=limit.replace(pretrained=name))

    def path(self, controller: str, limit: PolicyLimit) -> Path:
        """Path of the policy file of a controller called `controller`.

        Raises:
            ConfigError: no run folder is given, and the package has no such policy.
        """
        path = Path(limit.path)
        if path.is_absolute() or self.folder is not None:
            return (self.folder or Path()) / path
        if not limit.pretrained:
            raise ConfigError(
                f"controller {controller!r} needs a trained policy; name the run that made it: run=<folder>"
            )
        if limit.pretrained not in (names := packaged_names(self.packaged)):
            raise ConfigError(
                f"controller {controller!r} needs a trained policy, and none called {limit.pretrained!r} came with "
                f"ncc (it has: {', '.join(names) or 'none'}); name the run that made one, run=<folder>, or put one "
                f"there: ncc export run=<folder> out={self.packaged}/{limit.pretrained}.ncc"
            )
        return packaged_policy(limit.pretrained, self.packaged)

    def inputs(self, controller: Controller) -> dict[str, str]:
        """SHA-256 of the file or files that determine the controller's decisions, by their kind; empty if none do."""
        match controller.limit:
            case PolicyLimit() as policy:
                return {"policy": file_digest(self.path(controller.name, policy))}
            case ClassLimit() as user_class:
                return {"class": source_digest(user_class.target)}
            case ModelLimit() as model:
                return {"model": _digest(Path(model.path))}
        return {}

    def decider(self, controller: Controller, scenario: Scenario) -> tuple[Decider, tuple[str, ...]]:
        """Return who decides a controller's limits on a scenario, and doubts: sentences without a full stop.

        A policy with ranges in which it is trusted (`ActionSpec.within`) decides only inside them; the doubts say what
        is outside. Any other policy decides everywhere; the doubts say what it was not trained on.
        """
        controller = self._serving(controller, scenario)
        if not isinstance(controller.limit, PolicyLimit):
            return Decider.ITSELF, ()
        from ncc.envs.ranges import TrainedRanges, TrustedRanges

        path, _, meta = self._load(controller.name, controller.limit)
        if (within := meta.get("action", {}).get("within")) is None:
            if "trained" not in meta:
                return Decider.ITSELF, (f"{path.name} does not say on which networks it was trained",)
            return Decider.ITSELF, _part(TrainedRanges, meta, "trained", path).outside(scenario)
        outside = from_dict(TrustedRanges, within, f"{path}: within").outside(scenario)
        if not outside:
            return Decider.ITSELF, ()
        if controller.receivers is None:
            return Decider.LOCAL, outside
        return Decider.RECEIVERS if scenario.nic.knows == "backlog" else Decider.LOCAL_OR_NONE, outside

    def warnings(self, controller: Controller, scenario: Scenario) -> tuple[str, ...]:
        """Warnings about a controller's numbers on a scenario: sentences without a full stop."""
        decider, doubts = self.decider(controller, scenario)
        return doubts if decider is Decider.ITSELF else (*doubts, decider.value)

    def _is_residual(self, controller: Controller) -> bool:
        if not isinstance(controller.limit, PolicyLimit):
            return False
        kind: str | None = self._load(controller.name, controller.limit)[2].get("action", {}).get("kind")
        return kind == "residual"

    def _load(self, controller: str, limit: PolicyLimit) -> tuple[Path, MlpPolicy, Mapping[str, Any]]:
        path = self.path(controller, limit)
        return (path, *load_policy(path))

    def _policy(self, controller: str, limit: PolicyLimit, scenario: Scenario) -> RateLimiter:
        from ncc.envs.action import ActionSpec, rate_map
        from ncc.envs.observation import ObservationSpec, SharedObserver
        from ncc.policies import HeldLimiter, PolicyLimiter, RateBounds, table_bounds
        from ncc.policies.file import THRESHOLDS
        from ncc.policies.thresholds import ThresholdLimiter

        path, policy, meta = self._load(controller, limit)
        if THRESHOLDS in meta:
            thresholds = ThresholdLimiter(policy, str(path))
            thresholds.fit(scenario)
            return thresholds
        observer = SharedObserver(_part(ObservationSpec, meta, "observation", path))
        actions = rate_map(_part(ActionSpec, meta, "action", path), observer.spec)
        observer.reset(scenario)
        if observer.obs_dim != policy.obs_dim:
            raise ConfigError(
                f"{path} was trained on {policy.obs_dim} numbers per host and scenario {scenario.name!r} gives "
                f"{observer.obs_dim}: "
                + (
                    "this policy fits neighbourhoods of one size only; choose a scenario with as many hosts per "
                    "neighbourhood as it was trained on"
                    if observer.spec.neighbours == "each"
                    else f"view {observer.spec.neighbours!r} of features.yaml is another now; train it again"
                )
            )
        if policy.n_actions != actions.spec.n_outputs:
            raise ConfigError(
                f"{path} chooses among {policy.n_actions} actions and states a table of {actions.spec.n_outputs}; "
                "train again"
            )
        if not actions.spec.n_actions:
            if not limit.greedy:
                raise ConfigError(
                    f"controller {controller!r} draws its actions, and {path} decides on numbers and has no odds to "
                    "draw them by: set limit.greedy to true (ncc_formula instead of ncc_untrained)"
                )
            policy = NumberPolicy(policy.layers)
        limiter = PolicyLimiter(policy, observer, actions, greedy=limit.greedy)
        if "limits" not in meta:
            return limiter
        bounds = _part(RateBounds, meta, "limits", path)
        return limiter if bounds == table_bounds(actions.spec) else HeldLimiter(limiter, bounds)

    def _agents(self, controller: str, limit: HostsLimit) -> RateLimiter:
        from ncc.host.host_agents import HostAgents
        from ncc.policies import load_policy_file

        if not limit.greedy:
            raise ConfigError(
                f"controller {controller!r} is an agent on each host, which decides greedily: set limit.greedy to true"
            )
        return HostAgents(load_policy_file(self.path(controller, limit)))


@contextmanager
def _named_files(controller: Controller) -> Iterator[None]:
    """Turn the `ResultError` of a bad file into `ConfigError` if `controller=` names the file, as an absolute path."""
    try:
        yield
    except ResultError as error:
        if Path(getattr(controller.limit, "path", "")).is_absolute():
            raise ConfigError(f"controller {controller.name!r}: {error}") from None
        raise


def _part(kind: type[T], meta: Mapping[str, Any], name: str, path: Path) -> T:
    """Read a part of a policy's header."""
    if not isinstance(part := meta.get(name), Mapping):
        raise ResultError(f"{path} does not say its {name}; train again")
    return from_dict(kind, part, f"{path}: {name}")


def _model(limit: ModelLimit, scenario: Scenario) -> RateLimiter:
    from ncc.envs.model import SETTINGS, ModelLimiter

    path, settings = Path(limit.path), limit.env
    if path.is_dir():
        require_extra("rllib", str(path))
        from ncc.agents.rllib.model import load_rllib

        trained = {key: value for key, value in _trained_with(path).items() if key in SETTINGS}
        limiter = ModelLimiter(load_rllib(path), settings or trained, limit.path, greedy=limit.greedy)
    else:
        from ncc.agents.sb3 import load_sb3

        limiter = ModelLimiter(load_sb3(path), settings, limit.path, greedy=limit.greedy)
    limiter.fit(scenario)
    return limiter


def _trained_with(checkpoint: Path) -> Mapping[str, Any]:
    """Settings `observation`, `action` and `stack` of the training by ncc that wrote a checkpoint; else empty."""
    meta = checkpoint.resolve().parent.parent / UNTRAINED_FILE
    if not (checkpoint / "run.json").is_file() or not meta.is_file():
        return {}
    header = load_policy(meta)[1]
    return {name: header[name] for name in ("observation", "action", "stack")}


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder."""
    if not path.exists():
        raise ConfigError(f"there is no file or folder {path}; name a model that was saved")
    if not path.is_dir():
        return file_digest(path)
    files = {str(file.relative_to(path)): file_digest(file) for file in sorted(path.rglob("*")) if file.is_file()}
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()
