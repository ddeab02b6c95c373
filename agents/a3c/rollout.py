# SPDX-License-Identifier: BSD-3-Clause
"""Collection of experience: a collector steps an environment with the current policy and keeps data for an update."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ncc.agents.a3c.network import ActorCritic
from ncc.agents.progress import Returns
from ncc.core.errors import ConfigError, InvalidRunError
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray

Float = npt.NDArray[np.float32]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rollout:
    """T consecutive periods of all racks, as views into buffers that the next `collect` overwrites."""

    actions: ActionArray
    """[T, n_racks, n_agents]"""
    values: Float
    """[T, n_racks, n_agents] values of the observations acted on; `ActorCritic` keeps the observations themselves."""
    rewards: Float
    """[T, n_racks, n_agents]"""
    terminated: Bool
    """[T, n_racks]"""
    truncated: Bool
    """[T, n_racks]"""
    last_obs: ObsArray
    """[n_racks, n_agents, obs_dim] observations after the last step, without noise."""
    cut: tuple[tuple[int, int], ...]
    """(t, rack) for each episode that was truncated: in period t of that rack"""
    cut_obs: list[ObsArray]
    """[n_agents, obs_dim] last observation of each of these episodes"""
    returns: tuple[float, ...] = ()
    """Mean reward per host and period of each episode that ended."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the environment for these periods (`BatchedEnv.take_metrics`)."""

    @property
    def epochs(self) -> int:
        """Number of periods, summed over racks."""
        return int(self.terminated.size)


class Collector:
    """A collector that steps one environment from episode `first_episode` on.

    Args:
        env: the environment.
        rng: draws actions, unless the environment draws the noise for them (`BatchedEnv.n_noise`).
        rollout: largest number of periods that `collect` is asked for.
        first_episode: number of the first episode of every rack.

    Raises:
        ConfigError: the environment contradicts the sizes that it states.
    """

    def __init__(self, env: BatchedEnv, rng: np.random.Generator, rollout: int, first_episode: int) -> None:
        self._env, self._rng, self.n_racks = env, rng, env.n_racks
        agents = (rollout, env.n_racks, env.n_agents)
        self._drawn, self._seen = np.empty(env.n_racks * env.n_agents), env.obs_dim - env.n_noise
        self._values = np.empty(agents, np.float32)
        self._actions = np.empty(agents, np.int64 if env.n_actions else np.float32)
        self._rewards = np.empty(agents, np.float32)
        self._terminated = np.empty(agents[:2], np.bool_)
        self._truncated = np.empty(agents[:2], np.bool_)
        self._ended = np.zeros(env.n_racks, np.int64)
        self.reset(first_episode)

    def reset(self, episode: int) -> None:
        """Abandon the running episodes and start every rack at this episode."""
        self._last = np.asarray(self._env.reset(episode))
        expected = (*self._actions.shape[1:], self._env.obs_dim)
        if self._last.shape != expected:
            raise ConfigError(
                f"the environment must observe {list(expected)} as it states, got {list(self._last.shape)}"
            )
        self._returns = Returns(self._env.n_racks)
        self._ended[:] = episode

    @property
    def at_boundary(self) -> bool:
        """True if every rack is at the start of an episode."""
        return not self._returns.lengths.any()

    @property
    def next_episode(self) -> int:
        """The first episode number in which no rack has taken a step."""
        return int((self._ended + (self._returns.lengths > 0)).max())

    def collect(self, net: ActorCritic, steps: int, *, stop_at_boundary: bool = False) -> Rollout:
        """Take `steps` steps, or fewer if `stop_at_boundary` is set and all racks end their episodes together.

        Raises:
            InvalidRunError: a reward or an action's logit is not finite.
        """
        cut: list[tuple[int, int]] = []
        cut_obs: list[ObsArray] = []
        returns: list[float] = []
        taken = 0
        while taken < steps and not (stop_at_boundary and taken and self.at_boundary):
            t = taken
            obs = np.ascontiguousarray(self._last[..., : self._seen], np.float32).reshape(-1, self._seen)
            self._draw()
            if not net.act(obs, self._drawn, self._actions[t].reshape(-1), self._values[t].reshape(-1)):
                raise InvalidRunError(
                    f"logits are not finite after episode {self.next_episode}: observations or weights diverged"
                )
            step = self._env.step(self._actions[t] if self._env.n_actions else self._actions[t].clip(-1, 1))
            self._rewards[t], self._terminated[t], self._truncated[t] = step.reward, step.terminated, step.truncated
            self._last = step.obs
            taken += 1
            if not (ended := self._returns.add(step)):
                continue
            returns += ended
            for rack in np.flatnonzero(self._truncated[t] & ~self._terminated[t]).tolist():
                cut.append((t, rack))
                cut_obs.append(step.final_obs[rack, :, : self._seen].copy())
            self._ended += self._terminated[t] | self._truncated[t]
        return Rollout(
            self._actions[:taken],
            self._values[:taken],
            require_finite(self._rewards[:taken]),
            self._terminated[:taken],
            self._truncated[:taken],
            np.array(self._last[..., : self._seen], np.float32),
            tuple(cut),
            cut_obs,
            tuple(returns),
            self._env.take_metrics(),
        )

    def _draw(self) -> None:
        """Draw random numbers for the actions, or take them from the observation if it ends in noise."""
        if self._env.n_noise:
            self._drawn[:] = self._last[..., self._seen].reshape(-1)
        elif self._env.n_actions:
            self._rng.random(out=self._drawn)
        else:
            self._rng.standard_normal(out=self._drawn)


def require_finite(rewards: Float) -> Float:
    """Return rewards [T, n_racks, n_agents] unchanged, if all are finite.

    Raises:
        InvalidRunError: a reward is not finite.
    """
    if not np.isfinite(rewards).all():
        t, rack, host = np.argwhere(~np.isfinite(rewards))[0].tolist()
        raise InvalidRunError(
            f"reward of host {host} in rack {rack} is {rewards[t, rack, host]}; rewards must be finite"
        )
    return rewards
