# SPDX-License-Identifier: BSD-3-Clause
"""Simulations that speak ns3-gym's protocol as a `BatchedEnv`, the environment of our learners.

Each part of an action takes the place of a host: it makes its own choice, and all parts get the same reward and the
same observation, to which the number of the part is added.
"""

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.seeding import derive_seed, generator
from ncc.core.value import Positive, Value
from ncc.envs.ns3gym.actions import Choices
from ncc.envs.ns3gym.containers import Space
from ncc.envs.ns3gym.env import Ns3GymEnv
from ncc.envs.ns3gym.spec import SimulationSpec
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray, Transition

CLIP = 10.0
"""Bound of scaled observations, in standard deviations."""
SIM_SEEDS = 2**31 - 1
"""Largest seed that is drawn: ns-3's seeds have 32 bits, and some scripts keep them signed."""

Float64 = npt.NDArray[np.float64]


class Scales(Value, frozen=True):
    """Scales of observations and rewards, so that a network learns from them whatever their units."""

    obs_mean: tuple[float, ...]
    obs_std: tuple[Positive, ...]
    reward_std: Positive = 1.0

    def apply(self, flat: Float64) -> Float64:
        """Return observations [obs_dim] in standard deviations from the mean, clipped at `CLIP`."""
        scaled: Float64 = np.clip((flat - np.array(self.obs_mean)) / np.array(self.obs_std), -CLIP, CLIP)
        return scaled


@dataclass(frozen=True)
class SimulationFactory:
    """Picklable factory of a worker's simulations; workers and purposes all have different seeds."""

    spec: SimulationSpec
    scales: Scales
    seed: int
    purpose: str = "train"
    racks: int = 1

    def __call__(self, index: int) -> BatchedEnv:
        return SimulationBatch(
            self.spec, self.scales, self.seed, self.purpose, first=index * self.racks, n_racks=self.racks
        )


class SimulationBatch:
    """A `BatchedEnv` of `n_racks` simulations that run at the same time.

    The simSeed of episode e of simulation r is drawn from (seed, purpose, r, e); an attached simulation has its own.

    Args:
        spec: the simulation.
        scales: scales of observations and rewards.
        seed: base of the simulations' seeds, with `purpose` and `first`.
        purpose: purpose of the episodes, such as "train".
        first: number of the first rack.
        n_racks: number of simulations.
        episodes: number of episodes of each simulation, after which no other begins, so that an attached one need
            not be started in vain; the last state is observed then. None: no end.

    Raises:
        ConfigError: the action space has no bounds, or the spaces are too large.
        DatapathError: a simulation did not connect.
    """

    def __init__(
        self,
        spec: SimulationSpec,
        scales: Scales,
        seed: int,
        purpose: str,
        *,
        first: int = 0,
        n_racks: int = 1,
        episodes: int | None = None,
    ) -> None:
        self._spec, self._seed, self._purpose, self._first = spec, seed, purpose, first
        self._scales, self._last = scales, None if episodes is None else episodes - 1
        self._envs: list[Ns3GymEnv] = []
        try:
            for _ in range(n_racks):
                self._envs.append(_env(spec))
            self._space = self._envs[0].observation_space
            flat_dim, self._choices = _learnable(self._envs[0], spec)
        except BaseException:
            self.close()
            raise
        if len(scales.obs_mean) != flat_dim:
            self.close()
            raise ConfigError(
                f"the simulation observes {flat_dim} numbers, and {len(scales.obs_mean)} when the training began"
            )
        self.n_racks, self.n_agents, self.n_actions = n_racks, self._choices.n_parts, self._choices.n_actions
        self._which = np.eye(self.n_agents, dtype=np.float32) if self.n_agents > 1 else np.empty((1, 0), np.float32)
        self.obs_dim, self.copies, self.n_noise = flat_dim + self._which.shape[1], 1, 0
        self.reward_std = scales.reward_std
        """Divisor of the rewards."""
        self._episodes = [0] * n_racks
        self._begun = False

    def reset(self, episode: int = 0) -> ObsArray:
        """Start every simulation at that episode; return observations [n_racks, n_agents, obs_dim]."""
        self._begun = True
        return np.stack([self._reset(rack, episode) for rack in range(self.n_racks)])

    def step(self, actions: ActionArray) -> Transition:
        """Take a step with indices [n_racks, n_agents]; a simulation whose episode ends begins the next."""
        if not self._begun:
            raise DatapathError("no episode is running; reset the environment first")
        if actions.shape != (self.n_racks, self.n_agents):
            raise ConfigError(f"actions must have shape {(self.n_racks, self.n_agents)}, got {actions.shape}")
        for env, chosen in zip(self._envs, actions, strict=True):
            env.send(self._choices.action(chosen))
        final = np.empty((self.n_racks, self.n_agents, self.obs_dim), np.float32)
        reward = np.empty((self.n_racks, self.n_agents), np.float32)
        ended = np.zeros((2, self.n_racks), np.bool_)
        for rack, env in enumerate(self._envs):
            obs, gained, ended[0, rack], ended[1, rack], _ = env.receive()
            final[rack], reward[rack] = self._seen(obs), gained / self._scales.reward_std
        obs_next = final
        if (over := ended.any(axis=0)).any():
            obs_next = final.copy()
            for rack in np.flatnonzero(over).tolist():
                if self._episodes[rack] != self._last:
                    obs_next[rack] = self._reset(rack, self._episodes[rack] + 1)
        return Transition(obs=obs_next, reward=reward, terminated=ended[0], truncated=ended[1], final_obs=final)

    @property
    def episode(self) -> int:
        """Episode of the slowest simulation."""
        return min(self._episodes)

    def close(self) -> None:
        """End all simulations; may be called twice."""
        for env in self._envs:
            env.close()

    def _reset(self, rack: int, episode: int) -> ObsArray:
        self._episodes[rack] = episode
        seed = _sim_seed(self._spec, self._seed, self._purpose, self._first + rack, episode)
        obs, _ = self._envs[rack].reset(seed=seed)
        return self._seen(obs)

    def _seen(self, obs: Any) -> ObsArray:
        """Observations [n_agents, obs_dim]: the same for all parts of the action, with the number of the part."""
        flat = self._scales.apply(flatten(self._space, obs))
        rows = np.broadcast_to(flat.astype(np.float32), (self.n_agents, len(flat)))
        return np.concatenate([rows, self._which], axis=1)


def flatten(space: Space, obs: Any) -> Float64:
    """Return an observation as numbers [flatdim], as Gymnasium's `flatten` does.

    Scripts also send values beyond those of a Discrete (see `value_of`), which become zeros.
    """
    if isinstance(space, spaces.Discrete):
        return np.asarray(np.arange(int(space.n)) == obs, np.float64)
    if isinstance(space, spaces.Box):
        return np.asarray(obs, np.float64).ravel()
    if isinstance(space, spaces.Tuple):
        pairs = list(zip(space.spaces, obs, strict=True))
    else:
        pairs = [(part, obs[name]) for name, part in cast(spaces.Dict, space).spaces.items()]
    return np.concatenate([np.empty(0), *(flatten(part, value) for part, value in pairs)])


def measure_scales(spec: SimulationSpec, seed: int) -> Scales:
    """Measure means and standard deviations over `spec.probe_steps` random actions; a constant gets deviation 1.

    Raises:
        ConfigError: the simulation's spaces cannot be used for learning.
        DatapathError: an observation or reward is not finite.
    """
    rng = generator(seed, "ns3gym", "probe")
    env, seen, gained = _env(spec), [], []
    try:
        space, (_, choices) = env.observation_space, _learnable(env, spec)
        episode, over = 0, True
        for _ in range(spec.probe_steps):
            if over:
                obs, _ = env.reset(seed=_sim_seed(spec, seed, "probe", 0, episode))
                seen.append(flatten(space, obs))
                episode += 1
            obs, reward, terminated, truncated, _ = env.step(
                choices.action(rng.integers(choices.n_actions, size=choices.n_parts))
            )
            over = terminated or truncated
            seen.append(flatten(space, obs))
            gained.append(reward)
    finally:
        env.close()
    obs, rewards = np.array(seen, np.float64), np.array(gained)
    if not (np.isfinite(obs).all() and np.isfinite(rewards).all()):
        raise DatapathError("the simulation's observations and rewards must be finite numbers, and some are not")
    if not rewards.any():
        warnings.warn(f"the simulation paid nothing in {spec.probe_steps} steps of actions at random", stacklevel=2)
    return Scales(
        obs_mean=tuple(obs.mean(axis=0).tolist()),
        obs_std=tuple(_or_one(obs.std(axis=0)).tolist()),
        reward_std=float(_or_one(np.array([rewards.std() or np.abs(rewards).max()]))[0]),
    )


def _learnable(env: Ns3GymEnv, spec: SimulationSpec) -> tuple[int, Choices]:
    """Return the number of observed numbers, and the choices of actions."""
    flat_dim = spaces.flatdim(env.observation_space)
    if not flat_dim:
        raise ConfigError("the simulation observes no numbers, so there is nothing to learn from")
    choices = Choices(env.action_space, spec.levels)
    return flat_dim, choices


def _sim_seed(spec: SimulationSpec, seed: int, purpose: str, rack: int, episode: int) -> int | None:
    """Return the seed of an episode; None for an attached simulation."""
    return None if spec.command is None else 1 + derive_seed(seed, "ns3gym", purpose, rack, episode) % SIM_SEEDS


def _or_one(std: Float64) -> Float64:
    return np.where(std > 1e-9, std, 1.0)


def _env(spec: SimulationSpec) -> Ns3GymEnv:
    return Ns3GymEnv(spec.command, spec.port, folder=spec.folder, wait_s=spec.wait_s, answer_s=spec.answer_s)
