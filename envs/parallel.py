# SPDX-License-Identifier: BSD-3-Clause
"""A PettingZoo environment with one agent per host; our own learners use `RackBatch`, which needs no dicts."""

from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.seeding import SEED_LIMIT
from ncc.envs.action import rate_map
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.observation import HIGH, LOW, Rows
from ncc.envs.picture import METADATA, Frame, pictures
from ncc.envs.rack import Rack
from ncc.envs.scales import scales_of
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spec import DatapathFactory
from ncc.harness.batch import ObsArray

Array = npt.NDArray[Any]


class RackParallelEnv(ParallelEnv[str, ObsArray, Any]):  # type: ignore[misc] # PettingZoo has no types
    """An environment in which every host is an agent called ``host_<name>``.

    With an observation of receivers these are: ``receiver_<name>``, or ``receiver_<name>_<place>`` for their senders.

    Observation: Box of shape (obs_dim,), see `ncc.envs.observation`; `state` is all rows, flat. Action: Discrete(d +
    1), or Box(-1, 1, (1,)) if `action` is continuous. All agents end together. Seeding, arguments and errors are those
    of `ncc.envs.gym.RackEnv`.
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
        self.render_mode = render_mode
        self._pictures = pictures(render_mode, spec.scenario, 1)
        self._rates = rate_map(spec.view.action, spec.view.observation)
        self._rates.reset(spec.scenario)
        self._rack = Rack(spec, datapath_factory(datapath), seed=0)
        self._episode = -1
        self._obs: ObsArray | None = None
        seen = spec.view.observation
        who, names = "host", scales_of(spec.scenario).names
        if seen.of_receivers:
            who, names = "receiver", Rows(seen, spec.scenario).names
        self.possible_agents = [f"{who}_{name}" for name in names]
        self.agents: list[str] = []
        n_actions, size = spec.view.action.n_actions, self._rack.obs_dim
        self.observation_spaces = {name: spaces.Box(LOW, HIGH, (size,), np.float32) for name in self.possible_agents}
        self.action_spaces = {
            name: spaces.Discrete(n_actions) if n_actions else spaces.Box(-1.0, 1.0, (1,), np.float32)
            for name in self.possible_agents
        }
        self.state_space = spaces.Box(LOW, HIGH, (size * len(self.possible_agents),), np.float32)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, ObsArray], dict[str, dict[str, Any]]]:
        if seed is None and self._episode < 0:
            seed = int(seeding.np_random()[0].integers(SEED_LIMIT))
        if seed is not None:
            self._rack.seed, self._episode = seed, -1
        self._episode += 1
        self._obs = self._rack.begin(self._episode)
        self._see()
        self.agents = list(self.possible_agents)
        return self._by_agent(self._obs), {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, ObsArray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        names = self.agents
        if not names:
            raise DatapathError("no episode is running; reset the environment first")
        if set(actions) != set(names):
            wrong = sorted(set(names) ^ set(actions))[0]
            raise ConfigError(f"actions must have exactly one entry per agent; {wrong!r} is missing or unknown")
        chosen = np.concatenate([np.ravel(actions[name]) for name in names])
        epoch = self._rack.advance(self._rates.rates_bps(chosen, self._rack.obs))
        self._obs = epoch.obs
        self._see()
        infos: dict[str, dict[str, Any]] = {name: {} for name in names}
        result = (
            self._by_agent(epoch.obs),
            dict(zip(names, epoch.reward.tolist(), strict=True)),
            dict.fromkeys(names, epoch.terminated),
            dict.fromkeys(names, epoch.truncated),
            infos,
        )
        if epoch.terminated or epoch.truncated:
            self.agents = []
        return result

    def state(self) -> Array:
        if self._obs is None:
            raise DatapathError("there is no state yet; reset the environment first")
        return cast(Array, self._obs.ravel().copy())

    def render(self) -> Frame | None:
        """Draw the rack like `ncc.envs.gym.RackEnv.render`."""
        return self._pictures[0].frame() if self._pictures else None

    def close(self) -> None:
        self._rack.close()

    def _see(self) -> None:
        for picture in self._pictures:
            if self._rack.measurement is not None:
                picture.see(self._rack.measurement)

    def _by_agent(self, obs: ObsArray) -> dict[str, ObsArray]:
        return dict(zip(self.possible_agents, obs, strict=True))
