# SPDX-License-Identifier: BSD-3-Clause
"""Gymnasium's spaces of racks, and the conversion of their actions to rate limits."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.envs.action import rate_map
from ncc.envs.observation import HIGH, LOW, obs_dim
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.batch import ObsArray

Array = npt.NDArray[Any]
ActionSpace = Literal["multi_discrete", "box", "discrete"]
SPACES: tuple[ActionSpace, ...] = ("multi_discrete", "box", "discrete")


def host_spaces(view: EnvView, obs_dim: int) -> tuple[spaces.Box, spaces.Space[Any]]:
    """Return the spaces of a host's observation and of its action.

    The first is a Box of shape (obs_dim,), with the noise of `pairs` if there is any. The second is Discrete(d + 1) or,
    for continuous actions, Box(-1, 1, (1,)).
    """
    n_actions, low, high = view.action.n_actions, np.full(obs_dim, LOW), np.full(obs_dim, HIGH)
    if view.n_noise:
        low[-1], high[-1] = -np.inf, np.inf
    decided = spaces.Discrete(n_actions) if n_actions else spaces.Box(-1.0, 1.0, (1,), np.float32)
    return spaces.Box(low.astype(np.float32), high.astype(np.float32)), decided


class RackSpaces:
    """The spaces of one agent that decides for all hosts of a rack.

    `observation` is a Box of shape (n_agents * obs_dim,), the hosts' rows joined. `action` depends on `kind`:

    - ``multi_discrete``: MultiDiscrete([d + 1] * n_agents), an index for each host;
    - ``box``: Box(-1, 1, (n_agents,)), a number for each host;
    - ``discrete``: Discrete(d + 1), one index for all hosts;
    - None: ``box`` for continuous actions of `EnvSpec`, otherwise ``multi_discrete``.

    Raises:
        ConfigError: there is no such space, or it does not fit the actions of `EnvSpec`.
    """

    def __init__(self, spec: EnvSpec, kind: ActionSpace | None = None) -> None:
        seen, n_actions = spec.view.observation, spec.view.action.n_actions
        n = spec.scenario.n_agents
        kind = kind or ("multi_discrete" if n_actions else "box")
        if kind not in SPACES:
            raise ConfigError(f"space must be one of {', '.join(SPACES)}, got {kind!r}")
        if (kind == "box") == bool(n_actions):
            raise ConfigError(
                f"space {kind!r} has action.kind {'linear or log' if n_actions else 'levels or shares'}, got "
                f"{spec.view.action.kind!r}"
            )
        self.observation = spaces.Box(LOW, HIGH, (n * obs_dim(seen, spec.scenario),), np.float32)
        made: dict[str, spaces.Space[Any]] = {
            "multi_discrete": spaces.MultiDiscrete(np.full(n, max(n_actions, 1))),
            "box": spaces.Box(-1.0, 1.0, (n,), np.float32),
            "discrete": spaces.Discrete(max(n_actions, 1)),
        }
        self.action = made[kind]
        self._one = kind == "discrete"
        self._rates = rate_map(spec.view.action, spec.view.observation)
        self._rates.reset(spec.scenario)

    def limits_bps(self, action: Any, obs: ObsArray) -> FloatArray:
        """Return rate limits [..., n_agents] for an action chosen on observations [..., n_agents, obs_dim].

        Several racks have a leading axis in all three. A limit of inf means no limit.

        Raises:
            ConfigError: the action is not in the space; the message names the host, and its rack if there are several.
        """
        given, lead = np.asarray(action), obs.shape[:-2]
        if self._one:
            if given.shape != lead:
                raise ConfigError(
                    f"the action must be one whole number per rack, of shape {lead}, got shape {given.shape}"
                )
            given = np.repeat(given[..., None], obs.shape[-2], axis=-1)
        return self._rates.rates_bps(given, obs)
