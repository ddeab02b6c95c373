# SPDX-License-Identifier: BSD-3-Clause
"""A PettingZoo environment with one agent per host; our own learners use `RackBatch`, which needs no dicts."""

from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.action import rate_map
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.pairs import Noise
from ncc.envs.picture import METADATA, Frame
from ncc.envs.racks import Racks
from ncc.envs.scales import scales_of
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import host_spaces
from ncc.envs.spec import DatapathFactory
from ncc.harness.batch import ObsArray

Array = npt.NDArray[Any]


class RackParallelEnv(ParallelEnv[str, ObsArray, Any]):  # type: ignore[misc] # PettingZoo has no types
    """An environment in which every host is an agent called ``host_<name>``.

    Observation: Box of shape (obs_dim,), see `ncc.envs.observation`; `state` is all rows, flat. Action: Discrete(d +
    1), or Box(-1, 1, (1,)) if `action` is continuous. All agents end together. Seeding, arguments and errors are those
    of `ncc.envs.gym.RackEnv`.

    With ``pairs`` the hosts of all copies of the rack are agents, those of copy i called ``host_<name>_copy<i>``. Their
    rewards are differences between copies, and ``infos`` have each host's own reward as ``earned``. With ``mirror`` the
    last number observed is the noise (`ncc.envs.pairs`).
    """

    metadata: dict[str, Any] = METADATA | {"name": "ncc_rack_v0", "is_parallelizable": True}

    def __init__(
        self,
        scenario: ScenarioLike = None,
        *,
        datapath: str | DatapathFactory = DEFAULT_DATAPATH,
        render_mode: str | None = None,
        **settings: Unpack[RackSettings],
    ) -> None:
        spec = env_spec(scenario, **settings)
        self._pairs = pairs = spec.view.pairs
        copies = spec.copies(1 if pairs is None else pairs.copies)
        self.render_mode = render_mode
        self._rates = rate_map(spec.view.action, spec.view.observation)
        self._rates.reset(spec.scenario)
        self._racks = Racks(spec, datapath_factory(datapath), copies, copies=copies, render_mode=render_mode)
        self._noise = None if pairs is None else Noise(pairs, copies, self._racks.n_agents)
        self._rng = np.random.default_rng()
        self._shown: ObsArray | None = None
        names = scales_of(spec.scenario).names
        copied = [""] if pairs is None else [f"_copy{i}" for i in range(copies)]
        self.possible_agents = [f"host_{name}{copy}" for copy in copied for name in names]
        self.agents: list[str] = []
        made = [host_spaces(spec.view, self._racks.obs_dim + spec.view.n_noise) for _ in self.possible_agents]
        self.observation_spaces = {name: seen for name, (seen, _) in zip(self.possible_agents, made, strict=True)}
        self.action_spaces = {name: decided for name, (_, decided) in zip(self.possible_agents, made, strict=True)}
        low, high = (np.concatenate([getattr(seen, end) for seen, _ in made]) for end in ("low", "high"))
        self.state_space = spaces.Box(low, high)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, ObsArray], dict[str, dict[str, Any]]]:
        for row in range(len(self._racks.episodes)):
            self._racks.begin_next(row, seed, self._rng)
        if self._noise is not None:
            self._noise.begin(self._racks.seeds[0], 0, int(self._racks.episodes[0]))
        self.agents = list(self.possible_agents)
        return self._show(), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, ObsArray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        names = self.agents
        if not names:
            raise DatapathError("no episode is running; reset the environment first")
        if set(actions) != set(names):
            wrong = sorted(set(names) ^ set(actions))[0]
            raise ConfigError(f"actions must have exactly one entry per agent; {wrong!r} is missing or unknown")
        chosen = np.concatenate([np.ravel(actions[name]) for name in names]).reshape(self._racks.obs.shape[:2])
        limits_bps = self._rates.rates_bps(chosen, self._racks.obs)
        _, earned, terminated, truncated, ended = self._racks.advance(limits_bps)
        infos: dict[str, dict[str, Any]] = {name: {} for name in names}
        paid = earned
        if self._pairs is not None:
            paid = self._pairs.reward(earned)
            infos = {name: {"earned": each} for name, each in zip(names, earned.ravel().tolist(), strict=True)}
        result = (
            self._show(),
            dict(zip(names, paid.ravel().tolist(), strict=True)),
            dict.fromkeys(names, bool(terminated[0])),
            dict.fromkeys(names, bool(truncated[0])),
            infos,
        )
        if ended:
            self.agents = []
        return result

    def state(self) -> Array:
        if self._shown is None:
            raise DatapathError("there is no state yet; reset the environment first")
        return cast(Array, self._shown.ravel().copy())

    def render(self) -> Frame | None:
        """Draw the rack like `ncc.envs.gym.RackEnv.render`; with ``pairs``, its first copy."""
        return next(iter(self._racks.frames()), None)

    def close(self) -> None:
        self._racks.close()

    def _show(self) -> dict[str, ObsArray]:
        """Return each agent's observation of the last period."""
        obs = self._racks.obs
        self._shown = obs.copy() if self._noise is None else self._noise.onto(obs)
        return dict(zip(self.possible_agents, self._shown.reshape(len(self.possible_agents), -1), strict=True))
