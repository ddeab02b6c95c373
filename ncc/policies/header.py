# SPDX-License-Identifier: BSD-3-Clause
"""The header of a policy file: all that a host needs beside the weights, and the policy's origin."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Name, Natural, Value
from ncc.envs.action import ActionSpec
from ncc.envs.entries import ActionTable, FormulaTable, action_table, entry_names, formula_table, neighbours_of
from ncc.envs.observation import HIGH, LOW, ObservationSpec
from ncc.envs.ranges import TrainedRanges
from ncc.envs.spec import EnvView
from ncc.harness.controller import Controller, NoLimit
from ncc.harness.datapath import HostStack
from ncc.policies.limits import RateBounds

FORMAT = 4
"""Raised whenever readers of another version would misread a file, or name its entries otherwise."""
KIND = "ncc-policy-file"
"""Key of the metadata of a safetensors file that holds the header."""

Period = Annotated[float, Meta(ge=1e-5, le=10)]
"""Seconds between decisions, from what a simulation may ask for to what is no control any more."""
Size = Annotated[int, Meta(ge=1, le=100_000)]


class Origin(Value, frozen=True):
    """The origin of a policy."""

    source: str
    """Name of the run's folder, or of the packaged policy."""
    policy_sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the `.npz` that was exported."""
    seed: Natural
    """Seed of the training."""
    recipe: dict[str, Any]
    """The training's whole configuration."""
    facts: dict[str, Any]
    """Facts of the run's manifest about the training."""
    provenance: dict[str, Any]
    """Commit, versions and machine of the training (`ncc.harness.manifest.provenance`)."""
    exported_by: str
    """Version of ncc that exported it."""


class PolicyHeader(Value, frozen=True):
    """Header of a policy file. What follows from other fields stands there for readers, and must agree with them."""

    format: Literal[4]
    name: Name
    layers: Annotated[tuple[tuple[Size, Size], ...], Meta(min_length=1, max_length=64)]
    """(outputs, inputs) of each layer, in order."""
    activation: Literal["tanh"]
    """Function after every layer but the last."""
    observation: ObservationSpec
    """The rules by which measurements become numbers."""
    entries: tuple[str, ...]
    """Names of these numbers, in order; their range is `entry_range`."""
    entry_range: tuple[float, float]
    neighbours: Natural | None
    """Number of neighbours that a host must have; null: any."""
    action: ActionSpec
    """The rates among which a host chooses, or the formula whose limits it multiplies."""
    table: ActionTable | None
    """The rates in numbers; null: there is a formula."""
    period_s: Period
    """Seconds between decisions; within `trained.period_s`."""
    trained: TrainedRanges
    """The networks that training met."""
    limits: RateBounds
    """Bounds to which a host holds decisions."""
    stack: HostStack
    """Transport and order of flows below the limit."""
    fallback: Controller
    """Controller that hosts are handed back to; it limits nothing."""
    training: dict[str, Any]
    """Scenario, families and length of the training."""
    origin: Origin
    formula: FormulaTable | None = None
    """The formula in numbers; null: there is a table of rates."""

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""
        return self.layers[0][1]

    @property
    def n_actions(self) -> int:
        """Outputs: a rate each, or one of which a multiple is made."""
        return self.layers[-1][0]

    @property
    def n_weights(self) -> int:
        """Weights and biases in all."""
        return sum(outputs * (inputs + 1) for outputs, inputs in self.layers)

    def refuses_period(self, period_s: float) -> str:
        """Return why a host must not decide every `period_s`; an empty text if it may.

        A residual's ranges count periods, and `ActionSpec.within` says what else goes with one.
        """
        least_s, most_s = self.trained.period_s
        if self.action.within is not None or least_s * (1 - 1e-9) <= period_s <= most_s * (1 + 1e-9):
            return ""
        return f"period_s must be one that the policy was trained with, {least_s:g} to {most_s:g} s, got {period_s:g}"

    def check(self) -> None:
        for i, ((outputs, _), (_, inputs)) in enumerate(pairwise(self.layers)):
            if outputs != inputs:
                raise ConfigError(f"layer {i} has {outputs} outputs, but layer {i + 1} takes {inputs} inputs")
        EnvView(observation=self.observation, action=self.action)  # refuses shares of what is not observed
        if self.n_actions != self.action.n_outputs:
            raise ConfigError(f"the policy has {self.n_actions} actions, its action table {self.action.n_outputs}")
        residual = self.action.formula is not None
        if residual and not self.observation.ages:
            raise ConfigError(
                "messages between hosts get lost, and a residual is not to be trusted without them: it must be one "
                "that observes their ages (observation.ages)"
            )
        stated = {
            "neighbours": (self.neighbours, neighbours_of(self.observation, self.obs_dim)),
            "entries": (self.entries, entry_names(self.observation, self.obs_dim)),
            "entry_range": (self.entry_range, (LOW, HIGH)),
            "table": (self.table, None if residual else action_table(self.action, self.observation)),
            "formula": (self.formula, formula_table(self.action)),
        }
        for name, (said, true) in stated.items():
            if said != true:
                raise ConfigError(f"{name} is not what observation, action and layers make it")
        if refused := self.refuses_period(self.period_s):
            raise ConfigError(refused)
        if not isinstance(self.fallback.limit, NoLimit):
            raise ConfigError(f"the fallback must be a controller that limits no rates, got {self.fallback.name!r}")
