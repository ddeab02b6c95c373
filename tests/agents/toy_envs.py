# SPDX-License-Identifier: BSD-3-Clause
"""Batched environments small enough to know the best policy by heart, and factories that worker processes can take."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.seeding import generator
from ncc.harness.batch import ActionArray, BatchedEnv, ObsArray, Transition


class IdentityEnv:
    """Each host sees a one-hot index and earns 1 for choosing it. Rack r's episodes last ``lengths[r]`` epochs."""

    n_agents, copies, n_noise = 2, 1, 0

    def __init__(self, seed: int, lengths: tuple[int, ...], n_actions: int = 4, *, terminates: bool = False) -> None:
        self.n_racks, self.obs_dim, self.n_actions = len(lengths), n_actions, n_actions
        self._seed, self._lengths, self._terminates = seed, np.array(lengths), terminates
        self.resets: list[int] = []
        self.closed = False
        self.actions: list[ActionArray] = []

    def reset(self, episode: int = 0) -> ObsArray:
        self.resets.append(episode)
        self._episodes = np.full(self.n_racks, episode)
        self._t = np.zeros(self.n_racks, np.int64)
        self._plan = [self._draw(rack) for rack in range(self.n_racks)]
        return self._observe()

    def step(self, actions: ActionArray) -> Transition:
        assert actions.shape == (self.n_racks, self.n_agents)
        assert actions.dtype == np.int64
        self.actions.append(actions.copy())
        reward = (actions == self._targets()).astype(np.float32)
        self._t += 1
        final = self._observe()
        ended = self._t >= self._lengths
        for rack in np.flatnonzero(ended).tolist():
            self._episodes[rack] += 1
            self._t[rack] = 0
            self._plan[rack] = self._draw(rack)
        nothing = np.zeros_like(ended)
        terminated, truncated = (ended, nothing) if self._terminates else (nothing, ended)
        return Transition(self._observe(), reward, terminated, truncated, final)

    @property
    def episode(self) -> int:
        return int(self._episodes.min())

    def take_metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        self.closed = True

    def _draw(self, rack: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        rng = generator(self._seed, rack, int(self._episodes[rack]))
        return rng.integers(self.n_actions, size=(int(self._lengths[rack]) + 1, self.n_agents))

    def _targets(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.stack([plan[t] for plan, t in zip(self._plan, self._t, strict=True)])

    def _observe(self) -> ObsArray:
        return np.eye(self.obs_dim, dtype=np.float32)[self._targets()]


Env = TypeVar("Env", bound=BatchedEnv)


def cut(env: Env, after_steps: int) -> Env:
    """The environment with Ctrl-C after so many steps."""
    step, steps = env.step, iter(range(after_steps))

    def cut_step(actions: ActionArray) -> Transition:
        if next(steps, None) is None:
            raise KeyboardInterrupt
        return step(actions)

    env.step = cut_step  # type: ignore[method-assign]
    return env


@dataclass(frozen=True)
class Identity:
    """Factory of `IdentityEnv`; worker i's flows differ from worker j's."""

    lengths: tuple[int, ...] = (50, 50)
    n_actions: int = 4
    seed: int = 1
    terminates: bool = False

    def __call__(self, worker: int) -> BatchedEnv:
        return IdentityEnv(self.seed + worker, self.lengths, self.n_actions, terminates=self.terminates)


class KillingEnv(IdentityEnv):
    """Dies after some steps, once: the marker file tells later lives to go on."""

    def __init__(self, marker: Path, after_steps: int) -> None:
        super().__init__(2, (50, 50))
        self._marker, self._left = marker, after_steps

    def step(self, actions: ActionArray) -> Transition:
        self._left -= 1
        if self._left == 0 and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


@dataclass(frozen=True)
class Killing:
    """Dies in its 400th step, once."""

    marker: Path

    def __call__(self, worker: int) -> BatchedEnv:
        return KillingEnv(self.marker, 400)


class BrokenEnv(IdentityEnv):
    """Raises in its first step."""

    def step(self, actions: ActionArray) -> Transition:
        raise DatapathError("the simulator gave up at 0.25 s")


def broken(worker: int) -> BatchedEnv:
    return BrokenEnv(1, (50, 50))
