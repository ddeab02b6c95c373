# SPDX-License-Identifier: BSD-3-Clause
"""The header of a policy file: the data that a host needs in addition to the weights, and the policy's origin."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from ncc.core.errors import ConfigError
from ncc.core.value import Name, Natural, Value
from ncc.envs.action import ActionSpec
from ncc.envs.observation import ObservationSpec, neighbours_of
from ncc.envs.ranges import TrainedRanges
from ncc.envs.spec import EnvView
from ncc.harness.controller import Controller, NoLimit
from ncc.harness.datapath import HostStack
from ncc.policies.limits import RateBounds, table_bounds

Period = Annotated[float, Meta(ge=1e-5, le=10)]
"""Seconds between decisions."""
Size = Annotated[int, Meta(ge=1, le=100_000)]


class Origin(Value, frozen=True):
    """The training that made a policy."""

    seed: Natural
    """Seed of the training."""
    recipe: dict[str, Any]
    """The training's whole configuration."""
    source: str = ""
    """Name of the run's folder. An export sets it and the fields below. A training leaves them empty, so that two equal
    trainings write equal files."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Commit, versions and machine of the training (`ncc.harness.manifest.provenance`)."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the training from the run's manifest."""


class PolicyHeader(Value, frozen=True):
    """Header of a policy file."""

    format: Literal[5]
    name: Name
    layers: Annotated[tuple[tuple[Size, Size], ...], Meta(min_length=1, max_length=64)]
    """(outputs, inputs) of each layer, in order."""
    activation: Literal["tanh"]
    """Function after every layer but the last."""
    observation: ObservationSpec
    """The rules by which measurements become the numbers that the policy observes."""
    action: ActionSpec
    """The rates among which a host chooses, or the formula whose limits it multiplies."""
    period_s: Period
    """Seconds between decisions; see `refuses_period` for those that are allowed."""
    trained: TrainedRanges
    """Ranges of the networks in training."""
    limits: RateBounds
    """Bounds within which a host keeps the policy's limits."""
    stack: HostStack
    """Transport and order of flows below the limit."""
    fallback: Controller
    """Controller that hosts run after the agent ends; it has no rate limits."""
    scenario: dict[str, Any]
    """Scenario of the training."""
    origin: Origin
    families: dict[str, Any] = field(default_factory=dict)
    """Families of networks from which the training drew; empty: it used `scenario` alone."""
    reward: dict[str, Any] = field(default_factory=dict)
    """Reward of the training."""
    training: dict[str, Any] = field(default_factory=dict)
    """Learner, seed and length of the training."""

    @property
    def obs_dim(self) -> int:
        """Number of entries in an observation."""
        return self.layers[0][1]

    @property
    def n_actions(self) -> int:
        """Number of outputs: one for each rate, or a single one for the multiple of a formula."""
        return self.layers[-1][0]

    @property
    def neighbours(self) -> int | None:
        """Number of neighbours that a host must have; None: any."""
        return neighbours_of(self.observation, self.obs_dim)

    @property
    def n_weights(self) -> int:
        """Weights and biases in all."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.layers)

    def refuses_period(self, period_s: float) -> str:
        """Return the reason why a host must not decide every `period_s` seconds; an empty text if it may.

        The period must be within those of the training. A policy with ranges in which it is trusted
        (`ActionSpec.within`) accepts any period here: its ranges are in units of the period and are checked elsewhere.
        """
        least_s, most_s = self.trained.period_s
        if self.action.within is not None or least_s * (1 - 1e-9) <= period_s <= most_s * (1 + 1e-9):
            return ""
        return f"period_s must be one that the policy was trained with, {least_s:g} to {most_s:g} s, got {period_s:g}"

    def check(self) -> None:
        for i, ((outputs, _), (_, inputs)) in enumerate(pairwise(self.layers)):
            if outputs != inputs:
                raise ConfigError(f"layer {i} has {outputs} outputs, but layer {i + 1} takes {inputs} inputs")
        EnvView(observation=self.observation, action=self.action)  # refuses actions that need what is not observed
        if self.n_actions != self.action.n_outputs:
            raise ConfigError(f"the policy has {self.n_actions} actions, its action table {self.action.n_outputs}")
        if self.action.formula is not None and not self.observation.ages:
            raise ConfigError(
                "messages between hosts get lost, and a residual is not to be trusted without them: it must be one "
                "that observes their ages (observation.ages)"
            )
        neighbours_of(self.observation, self.obs_dim)  # refuses a number of inputs that no number of neighbours gives
        if refused := self.refuses_period(self.period_s):
            raise ConfigError(refused)
        if not isinstance(self.fallback.limit, NoLimit):
            raise ConfigError(f"the fallback must be a controller that limits no rates, got {self.fallback.name!r}")


def header_of_training(
    *,
    observation: ObservationSpec,
    action: ActionSpec,
    stack: HostStack,
    trained: TrainedRanges,
    period_s: float,
    origin: Origin,
    **parts: Mapping[str, Any],
) -> dict[str, Any]:
    """Make the header of a training's policies, as plain data.

    It has no `limits` if the actions are of kind linear or log, which hosts cannot run.

    Args:
        parts: `scenario`, `families` and `reward` as plain data.
    """
    plain = {
        "name": "ncc",
        "observation": observation.to_dict(),
        "action": action.to_dict(),
        "period_s": period_s,
        "trained": trained.to_dict(),
        "stack": stack.to_dict(),
        "fallback": alone(stack).to_dict(),
        **parts,
        "origin": origin.to_dict(),
    }
    if action.kind not in ("linear", "log"):
        plain["limits"] = table_bounds(action).to_dict()
    return plain


def alone(stack: HostStack) -> Controller:
    """Make the controller to which hosts fall back: the stack's transport alone, first in first out, without limits."""
    return Controller(
        name=stack.transport,
        summary="The transport of the training, alone",
        stack=stack.replace(order="fifo", order_params=()),
    )
