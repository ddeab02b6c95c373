# SPDX-License-Identifier: BSD-3-Clause
"""Models that other frameworks trained on our environments, as rate limiters."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.make import env_spec
from ncc.envs.observation import SharedObserver, obs_dim
from ncc.envs.spaces import RackSpaces, host_spaces
from ncc.harness.batch import ObsArray

SETTINGS = ("observation", "action", "pairs")
"""Arguments of `ncc.envs.make.env_spec` that a model may have been trained with."""


class Model(Protocol):
    """A trained model of any framework, for a batch of observations at a time."""

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Space of the observations, a batch of which `act` takes."""
        ...

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Space of the actions, a batch of which `act` returns."""
        ...

    def reset(self, seed: int) -> None:
        """Begin an episode; `seed` determines sampled actions."""
        ...

    def act(self, obs: ObsArray, *, greedy: bool) -> npt.NDArray[Any]:
        """Return actions [n, ...] for observations [n, size]: the likeliest if `greedy`, otherwise sampled ones."""
        ...


class ModelLimiter:
    """A `RateLimiter` whose model decides either for all hosts of a rack at once, or for each host by itself.

    The model's spaces determine which. A model with the spaces of `ncc.envs.gym.RackEnv` decides for the rack; one with
    those of an agent of `ncc.envs.parallel.RackParallelEnv` decides for a host.

    Args:
        model: the model.
        settings: `observation`, `action` and `pairs` of its training that differ from the defaults, as for
            `ncc.envs.make.env_spec`. If it observed noise in training (`pairs`), it observes 0 in its place here.
        where: name of the model in errors.
        greedy: False samples its actions.

    Raises:
        ConfigError: there is no such setting.
    """

    def __init__(self, model: Model, settings: Mapping[str, Any], where: str, *, greedy: bool = True) -> None:
        if unknown := sorted(set(settings) - set(SETTINGS)):
            raise UnknownNameError(f"key of limit.env of {where}", unknown[0], SETTINGS)
        self._model, self._settings, self._where, self._greedy = model, dict(settings), where, greedy

    def fit(self, scenario: Scenario) -> None:
        """Set the limiter up for a scenario.

        Raises:
            ConfigError: the model has other spaces; the message lists its own and those of the scenario.
        """
        own = self._model.observation_space.shape, self._model.action_space
        spec = env_spec(scenario, continuous=isinstance(own[1], spaces.Box), **self._settings)
        each, n_actions, self._n_noise = RackSpaces(spec), spec.view.action.n_actions, spec.view.n_noise
        seen, decided = host_spaces(spec.view, obs_dim(spec.view.observation, scenario) + self._n_noise)
        host = (seen.shape, decided)
        offered = [(host, each, True), ((each.observation.shape, each.action), each, False)]
        if n_actions:
            one = RackSpaces(spec, "discrete")
            offered.append(((one.observation.shape, one.action), one, False))
        for wanted, self._spaces, self._shared in offered:
            if own == wanted:
                self._observer = SharedObserver(spec.view.observation)
                return
        offers = " or ".join(f"{shape} and {_text(action)}" for (shape, action), _, _ in offered)
        raise ConfigError(
            f"{self._where} takes observations of shape {own[0]} and gives actions {_text(own[1])}, and scenario "
            f"{scenario.name!r} has {offers}: choose a scenario with as many hosts as in its training, or say in a "
            "controller's YAML how it observed and acted, limit.env.observation, limit.env.action and limit.env.pairs"
        )

    def reset(self, scenario: Scenario, seed: int) -> None:
        self.fit(scenario)
        self._observer.reset(scenario, seed=derive_seed(seed, "sharing"))
        self._model.reset(seed)

    def decide(self, measurement: Measurement) -> FloatArray:
        obs = self._observer.observe(measurement)
        if self._shared:
            seen = np.pad(obs, ((0, 0), (0, self._n_noise)))
            actions = self._model.act(seen, greedy=self._greedy).reshape(len(obs))
        else:
            actions = self._model.act(obs.reshape(1, -1), greedy=self._greedy)[0]
        return self._spaces.limits_bps(actions, obs)


def _text(space: spaces.Space[Any]) -> str:
    """Return a space in one short line: NumPy breaks the array of a large `MultiDiscrete` into lines."""
    if isinstance(space, spaces.MultiDiscrete) and len(set(space.nvec.tolist())) == 1:
        return f"MultiDiscrete([{space.nvec[0]}] * {len(space.nvec)})"
    return str(space)
