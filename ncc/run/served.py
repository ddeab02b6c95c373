# SPDX-License-Identifier: BSD-3-Clause
"""An environment of ncc, served to an ns3-gym agent as its simulation, episode after episode."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.agent import AgentLeft, AgentLink
from ncc.envs.ns3gym.containers import wire_space

OnEpisode = Callable[[int, int, float, str], None]
"""Function that is called with an episode's number from 0, its steps, its mean reward per step, and how it ended."""


def serve(
    env: gymnasium.Env[Any, Any],
    port: int,
    seed: int,
    *,
    episodes: int | None,
    wait_s: float,
    answer_s: float,
    on_episode: OnEpisode,
) -> int:
    """Play episodes with agents that listen on `port`, one at a time, until none comes back.

    Args:
        env: environment with observations and actions that the protocol supports (`wire_space`).
        port: TCP port on this machine.
        seed: seed of the first episode; the environment derives the others from it.
        episodes: number of episodes; None: continue until no agent comes back.
        wait_s: seconds to wait for an agent, at first and between two episodes.
        answer_s: seconds that an agent gets for an action.
        on_episode: called after each episode with at least one step.

    Returns:
        Number of episodes with at least one step.

    Raises:
        AgentLeft: no agent came at all.
        DatapathError: an agent left during an episode, or violates the protocol.
    """
    obs_space, act_space = wire_space(env.observation_space), wire_space(env.action_space)
    played, begun = 0, 0
    while episodes is None or played < episodes:
        try:
            agent = AgentLink(port, obs_space, act_space, wait_s, answer_s)
        except AgentLeft:
            if not begun:
                raise
            return played
        try:
            steps, mean, how = _episode(env, agent, seed if not begun else None)
        except BaseException:
            agent.leave()
            raise
        finally:
            agent.close()
        begun += 1
        if steps:
            on_episode(played, steps, mean, how)
            played += 1
    return played


def _episode(env: gymnasium.Env[Any, Any], agent: AgentLink, seed: int | None) -> tuple[int, float, str]:
    """Play one episode; return its number of steps, its mean reward per step, and how it ended."""
    if agent.stopped:
        return 0, 0.0, "stopped by the agent"
    obs, info = env.reset(seed=seed)
    reward, terminated, truncated, total = 0.0, False, False, 0.0
    while True:
        action = agent.tell(obs, reward, _text(info), terminated=terminated, truncated=truncated)
        if action is None:
            break
        try:
            obs, gained, terminated, truncated, info = env.step(_native_action(action, env.action_space))
        except ConfigError as error:
            raise DatapathError(f"the agent's action of step {agent.steps} cannot be used: {error}") from None
        reward = float(gained)
        total += reward
    how = "over" if terminated else "time up" if truncated else "stopped by the agent"
    return agent.steps, total / max(1, agent.steps), how


def _native_action(action: Any, space: spaces.Space[Any]) -> Any:
    """Convert an action of a `wire_space` to the environment's own space."""
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return np.array(action, space.dtype).reshape(space.shape)
    return action


def _text(info: dict[str, Any]) -> str:
    """Convert the plain entries of an info to JSON, because ns3-gym's info is a text."""
    return json.dumps({name: value for name, value in info.items() if isinstance(value, str | int | float | bool)})
