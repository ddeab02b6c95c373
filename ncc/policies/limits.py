# SPDX-License-Identifier: BSD-3-Clause
"""A policy as a rate limiter, and the bounds of its limits on a host: minimum, maximum, and largest change."""

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from ncc.agents.policy import MlpPolicy
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import parts
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.value import Positive, Value
from ncc.envs.action import ActionSpec, AnyRateMap
from ncc.envs.observation import SharedObserver
from ncc.envs.scales import scales_of
from ncc.harness.limiter import RateLimiter

Ratio = Annotated[float, Meta(gt=1)]
LEAST_FRAC = 1e-4
"""Smallest allowed `min_rate_frac`."""


class RateBounds(Value, frozen=True):
    """Bounds of a host's rate limit, and of its change from one decision to the next."""

    min_rate_frac: Annotated[float, Meta(ge=LEAST_FRAC, le=1)]
    """Least limit, as a fraction of the host's link rate."""
    max_rate_frac: Positive
    """Highest limit, as a fraction of the host's link rate; if it is at least 1, a host may also have no limit."""
    rise_ratio: Ratio | None = None
    """Largest ratio of a limit to the one before; None: any. A rise that may reach the link's rate is not bounded, so
    the host may also have no limit then."""
    fall_ratio: Ratio | None = None
    """Largest ratio of a limit to the next one; None: any. No limit counts as a limit at the link's rate here."""

    def check(self) -> None:
        if self.min_rate_frac > self.max_rate_frac:
            raise ConfigError(
                f"RateBounds.min_rate_frac must not exceed max_rate_frac ({self.max_rate_frac}), "
                f"got {self.min_rate_frac}"
            )

    def hold(self, limits_bps: FloatArray, before_bps: FloatArray, link_bps: FloatArray) -> FloatArray:
        """Bring decided limits within the bounds; inf is no limit, and NaN stays NaN.

        Minimum and maximum take precedence over the ratios.

        Args:
            limits_bps: [k] limits that the policy decided, in bits/s.
            before_bps: [k] limits until now, in bits/s.
            link_bps: [k] rates of the hosts' links, in bits/s.

        Returns:
            limits [k] in bits/s.
        """
        # Floats, not arrays: a host's agent has one limit, for which each call of numpy would take microseconds.
        return np.array(list(map(self._held_bps, limits_bps.tolist(), before_bps.tolist(), link_bps.tolist())))

    def _held_bps(self, limit_bps: float, before_bps: float, link_bps: float) -> float:
        last_bps = min(before_bps, link_bps)
        if self.rise_ratio is not None and (highest_bps := last_bps * self.rise_ratio) < link_bps:
            limit_bps = min(limit_bps, highest_bps)  # NaN if the first is NaN
        if self.fall_ratio is not None:
            limit_bps = max(limit_bps, last_bps / self.fall_ratio)
        if limit_bps == math.inf and self.max_rate_frac >= 1:
            return math.inf
        return min(max(limit_bps, self.min_rate_frac * link_bps), self.max_rate_frac * link_bps)


def table_bounds(spec: ActionSpec) -> RateBounds:
    """Make bounds that change no limit of an action table.

    If the actions multiply a formula's limits, the bounds raise limits below `LEAST_FRAC` of the link's rate to that.

    Raises:
        ConfigError: actions of kind linear or log, which hosts do not take.
    """
    if spec.formula is not None:
        return RateBounds(min_rate_frac=LEAST_FRAC, max_rate_frac=1.0)
    if not spec.n_actions:
        raise ConfigError(f"ActionSpec.kind is {spec.kind!r}; hosts take policies of 'levels', 'shares' or 'residual'")
    # A fair share is observed as at most the link's rate.
    return RateBounds(min_rate_frac=spec.min_rate_frac, max_rate_frac=max(*spec.multiples[:-1], 1.0))


class PolicyLimiter:
    """A `RateLimiter` that decides by a policy, as hosts do: it observes, acts, and maps actions to rates.

    Args:
        greedy: True takes the most likely action; False draws one.
    """

    def __init__(
        self, policy: MlpPolicy, observer: SharedObserver, actions: AnyRateMap, *, greedy: bool = True
    ) -> None:
        self.policy, self.observer, self.actions, self.greedy = policy, observer, actions, greedy
        self._rng: np.random.Generator | None = None

    def reset(self, scenario: Scenario, seed: int) -> None:
        self.observer.reset(scenario, seed=derive_seed(seed, "sharing"))
        self.actions.reset(scenario)
        self._rng = None if self.greedy else np.random.default_rng(seed)

    def decide(self, measurement: Measurement) -> FloatArray:
        obs = self.observer.observe(measurement)
        return self.actions.rates_bps(self.policy.act(obs, self._rng), obs)


class HeldLimiter:
    """A `RateLimiter` that brings another limiter's limits within bounds, as a host does; it drops any grants."""

    def __init__(self, limiter: RateLimiter, bounds: RateBounds) -> None:
        self._limiter, self._bounds = limiter, bounds

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limiter.reset(scenario, seed)
        self._link_bps = scales_of(scenario).link_rate_bps
        self._held = np.full(len(self._link_bps), np.inf)

    def decide(self, measurement: Measurement) -> FloatArray:
        self._held = self._bounds.hold(parts(self._limiter.decide(measurement))[0], self._held, self._link_bps)
        return self._held
