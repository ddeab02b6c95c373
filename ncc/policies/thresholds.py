# SPDX-License-Identifier: BSD-3-Clause
"""A policy that sets the thresholds of PIAS' classes (`ncc.envs.thresholds`) as a `RateLimiter`."""

import numpy as np

from ncc.agents.policy import MlpPolicy
from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.core.receivers import Decision
from ncc.core.scenario import Scenario
from ncc.envs.thresholds import N_THRESHOLDS, OBS_DIM, DeliveredView, thresholds


class ThresholdLimiter:
    """A `RateLimiter` that limits no rate, and gives hosts the thresholds that a policy chooses, once per period.

    Args:
        policy: network from an observation of `DeliveredView` to seven outputs u; the action is tanh(u).
        where: name of the policy in errors.

    Raises:
        ConfigError: the policy has other inputs or outputs.
    """

    def __init__(self, policy: MlpPolicy, where: str) -> None:
        if (policy.obs_dim, policy.n_actions) != (OBS_DIM, N_THRESHOLDS):
            raise ConfigError(
                f"{where} has {policy.obs_dim} inputs and {policy.n_actions} outputs, and thresholds have {OBS_DIM} "
                f"and {N_THRESHOLDS}: train it on ncc/Thresholds-v0"
            )
        self._policy = policy

    def fit(self, scenario: Scenario) -> None:
        """Set the limiter up for a scenario; errors are those of `DeliveredView`."""
        self._view, self._limits = DeliveredView(scenario), np.full(scenario.n_agents, np.inf)

    def reset(self, scenario: Scenario, seed: int) -> None:
        self.fit(scenario)

    def decide(self, measurement: Measurement) -> Decision:
        outputs = self._policy.logits(self._view.observe(measurement)[None])[0]
        return Decision(self._limits, tag_params=thresholds(np.tanh(outputs)))
