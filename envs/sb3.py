# SPDX-License-Identifier: BSD-3-Clause
"""A Stable-Baselines3 vector environment in which every host is an environment, so that all hosts share a policy.

``PPO("MlpPolicy", VecMonitor(HostVecEnv("incast", hosts=8, num_racks=4)))`` learns the policy of a host.
For one agent that decides for the whole rack use `ncc.envs.gym`. Call ``torch.set_num_threads(1)`` first: policies here
are small, and PyTorch's threads make learning many times slower.
"""

import os
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.extras import require_extra
from ncc.envs.make import DEFAULT_DATAPATH, RackSettings, datapath_factory, env_spec
from ncc.envs.pairs import paired
from ncc.envs.rack import RackBatch
from ncc.envs.scenarios import ScenarioLike
from ncc.envs.spaces import host_spaces
from ncc.envs.spec import DatapathFactory
from ncc.harness.networks import side_by_side

require_extra("sb3", "ncc.envs.sb3", "stable_baselines3")

from stable_baselines3.common.vec_env import VecEnv  # noqa: E402 - after the check


class HostVecEnv(VecEnv):  # type: ignore[misc] # its types are not checked here
    """Every host of every rack as an environment: ``num_racks`` times the scenario's number of hosts.

    Observation: Box of shape (obs_dim,), the host's (`ncc.envs.observation`). Action: Discrete(d + 1), or
    Box(-1, 1, (1,)) if `action` is continuous. Reward: the host's own. Hosts of a rack end together, and ``infos`` have
    SB3's ``terminal_observation`` and ``TimeLimit.truncated`` then.

    With ``pairs`` racks come in groups of copies with the same flows. The reward is then a difference between copies,
    and ``infos`` have the host's own reward as ``earned``. With ``mirror`` the last number observed is the noise
    (`ncc.envs.pairs`).

    Args:
        scenario: as for `ncc.envs.gym.RackEnv`.
        num_racks: number of racks.
        seed: seed of the flows, with the numbers of rack and episode; ``seed()`` sets another for the next reset, as
            learners of SB3 do with their own.
        threads: threads on packetsim; None: one per processor. Only the speed depends on it.
        datapath: as for `ncc.envs.gym.RackEnv`.
        **settings: as for `ncc.envs.gym.RackEnv`.

    Raises:
        ConfigError: a setting is not allowed, or Stable-Baselines3 is missing.
    """

    def __init__(
        self,
        scenario: ScenarioLike = None,
        *,
        num_racks: int = 1,
        seed: int = 0,
        threads: int | None = None,
        datapath: str | DatapathFactory = DEFAULT_DATAPATH,
        **settings: Unpack[RackSettings],
    ) -> None:
        spec = env_spec(scenario, **settings)
        self.render_mode = None
        racks = side_by_side(datapath_factory(datapath))
        threads = len(os.sched_getaffinity(0)) if threads is None else threads
        copies, self._pairs = spec.copies(num_racks), spec.view.pairs
        self._racks = RackBatch(spec, racks, seed, n_racks=num_racks, threads=threads, copies=copies)
        self._env = env = paired(self._racks, self._pairs, seed)
        self._shape, self._begun = (num_racks, env.n_agents), False
        seen, decided = host_spaces(spec.view, env.obs_dim)
        super().__init__(num_racks * env.n_agents, seen, decided)
        self._actions = np.zeros(self._shape, decided.dtype)

    def reset(self) -> Any:
        """Begin an episode of every rack; return observations [num_envs, obs_dim].

        All racks begin the same episode. It is number 0 at the first call and at the first call after ``seed()``. At
        any other call it follows the episode of the slowest rack. Running episodes are abandoned.
        """
        if self._seeds[0] is not None:
            self._racks.seed, self._begun = int(self._seeds[0]), False
            self._env = paired(self._racks, self._pairs, self._racks.seed)
            self._reset_seeds()
        episode, self._begun = self._env.episode + 1 if self._begun else 0, True
        return self._env.reset(episode).reshape(self.num_envs, -1)

    def step_async(self, actions: Any) -> None:
        self._actions = np.asarray(actions, self._actions.dtype).reshape(self._shape)

    def step_wait(self) -> Any:
        moved = self._env.step(self._actions)
        done = np.repeat(moved.terminated | moved.truncated, self._shape[1])
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if moved.earned is not None:
            infos = [{"earned": earned} for earned in moved.earned.ravel().tolist()]
        cut = np.repeat(moved.truncated & ~moved.terminated, self._shape[1])
        last = moved.final_obs.reshape(self.num_envs, -1)
        for row in np.flatnonzero(done).tolist():
            infos[row] |= {"terminal_observation": last[row], "TimeLimit.truncated": bool(cut[row])}
        return moved.obs.reshape(self.num_envs, -1).copy(), moved.reward.ravel(), done, infos

    def close(self) -> None:
        self._env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ConfigError("hosts share one environment: nothing can be set for some of them; build another")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        raise ConfigError(
            "hosts share one environment: no method can be called for some of them; call the environment's own"
        )

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * len(self._rows(indices))

    def _rows(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))
