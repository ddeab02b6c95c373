# SPDX-License-Identifier: BSD-3-Clause
"""A trained policy for decisions in real time: observation, network and limits in one compiled call.

A decision by `SharedObserver`, `MlpPolicy` and `RateTable` makes a dozen calls of numpy, each of which takes
microseconds on a core that has slept. `ncc/envs/observation/decide.cc` takes their tables and makes it in one call,
with the same code for observations. Limits are equal except where two actions are equally likely to within rounding,
which a test checks. Of a policy that decides on numbers it makes observations and outputs, and `RateScale` the limits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.envs.action import RateScale, RateTable
from ncc.envs.observation import SharedObserver
from ncc.envs.observation.observer import extension, signals_of
from ncc.harness.batch import ActionArray
from ncc.harness.limiter import PolicyLimiter, RateLimiter


@runtime_checkable
class TanhLayers(Protocol):
    """Policy that can give its layers: `ncc.agents.policy.MlpPolicy`, which this folder must not import."""

    obs_dim: int
    n_actions: int

    def tanh_layers(self) -> Sequence[tuple[Any, Any]] | None:
        """Return weights [outputs, inputs] and bias [outputs] of each layer; None unless only tanh stands between."""
        ...

    def chosen(self, logits: Any) -> ActionArray:
        """Return what is done [...] by the outputs of the last layer [..., n_actions], without drawing."""
        ...


class Heard(NamedTuple):
    """Messages that an agent on a host has for a decision, beside the values that they brought."""

    ages: IntArray
    """Periods by which the states of hosts and uplinks are older than they should be, [n_agents + n_neighbourhoods]."""
    period: int
    """Number of the period, the same for all hosts, by which they take turns."""


@runtime_checkable
class Around(Protocol):
    """Limiter that wraps another limiter: `ncc.policies.HeldLimiter`, which this folder must not import."""

    def around(self, other: Callable[[RateLimiter], RateLimiter]) -> RateLimiter:
        """Make the same wrapper around `other` of the wrapped limiter."""
        ...


def hastened(limiter: RateLimiter) -> RateLimiter:
    """Return a limiter that decides as `limiter` does, in decide.cc if that can compute its policy.

    Types must match exactly, because a subclass may compute something else.
    """
    if isinstance(limiter, Around):
        return limiter.around(hastened)
    if type(limiter) is not PolicyLimiter or not limiter.greedy:
        return limiter
    policy, observer, actions = limiter.policy, limiter.observer, limiter.actions
    if not isinstance(policy, TanhLayers) or policy.tanh_layers() is None:
        return limiter
    if type(observer) is not SharedObserver or not (type(actions) is RateTable or type(actions) is RateScale):
        return limiter
    return HastenedPolicy(limiter, policy, observer, actions)


class HastenedPolicy:
    """A `RateLimiter` that runs another limiter's policy in decide.cc, if that can compute its observations."""

    def __init__(
        self, limiter: PolicyLimiter, policy: TanhLayers, observer: SharedObserver, actions: RateTable | RateScale
    ) -> None:
        self._limiter, self._policy, self._observer, self._actions = limiter, policy, observer, actions
        self.decider: Any | None = None
        """Compiled policy, set by `reset`; None if the other limiter decides itself."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that name the code that has decided since `reset`; see `ncc.harness.run.ReportsFacts`."""
        return {"decides": "numpy" if self.decider is None else "compiled"}

    def reset(self, scenario: Scenario, seed: int) -> None:
        """Prepare for a run."""
        self._limiter.reset(scenario, seed)
        self.decider, self._n_agents = None, scenario.n_agents
        policy, actions, n_actions = self._policy, self._actions, self._actions.spec.n_outputs
        if policy.obs_dim != self._observer.obs_dim:
            raise ConfigError(
                f"this policy reads observations of shape [..., {policy.obs_dim}], got "
                f"{[scenario.n_agents, self._observer.obs_dim]}; observe as in the run that trained it"
            )
        if policy.n_actions != n_actions:
            raise ConfigError(
                f"this policy chooses among {policy.n_actions} actions and the table has {n_actions}; take the actions "
                "of the run that trained it"
            )
        layers, tables = policy.tanh_layers(), self._observer.tables
        if layers is not None and tables is not None:
            rates = actions.tables() if isinstance(actions, RateTable) else None
            self.decider = extension().Decider(tables=tables, layers=list(layers), rates=rates)

    def decide(self, measurement: Measurement) -> FloatArray:
        """Return limits in bits/s, shape [n_agents]; inf means no limit.

        Raises:
            DatapathError: a measured number is not finite.
        """
        return self._limiter.decide(measurement) if self.decider is None else self._decided(measurement, None)

    def among(self, begin: int, end: int) -> None:
        """Decide from now on for hosts `begin` to `end` - 1 only; other limits mean nothing then."""
        self._compiled().among(begin, end)

    def decide_as_told(self, measurement: Measurement, before: Measurement | None, heard: Heard) -> FloatArray:
        """Return limits as `decide` does, by what was heard since.

        Args:
            measurement: this epoch, of which no more is known than of the hosts that are decided for.
            before: the epoch before, with what has been heard of it since the last decision; None: it stays as it was.
            heard: how old that is.
        """
        if before is not None and not self._compiled().correct(signals_of(before)):
            self._blame(before)
        return self._decided(measurement, heard)

    def _compiled(self) -> Any:
        if self.decider is None:
            raise TypeError("only a compiled policy decides by what agents tell each other")
        return self.decider

    def _decided(self, measurement: Measurement, heard: Heard | None) -> FloatArray:
        decider, actions, limits = self._compiled(), self._actions, np.empty(self._n_agents)
        if not decider.decide(signals_of(measurement), limits, *(heard or ())):
            self._blame(measurement)
        if isinstance(actions, RateTable):
            return limits
        return actions.rates_bps(self._policy.chosen(decider.logits), decider.obs)

    def _blame(self, measurement: Measurement) -> None:
        self._limiter.decide(measurement)  # raises an error that says what is wrong with it
        raise ConfigError("the policy's weights make numbers that are not finite; the training that made it diverged")
