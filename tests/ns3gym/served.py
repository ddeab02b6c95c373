# SPDX-License-Identifier: BSD-3-Clause
"""A server in a thread of this process, and an environment that costs nothing."""

import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ncc.envs.ns3gym.schema import messages
from ncc.run.served import serve
from tests.support.processes import PATIENCE_S

messages()  # building them takes time that short waits do not have


class Tally(gymnasium.Env[Any, Any]):
    """Shows the episode's seed, the step and the action's sum; pays that sum; ends after `length` steps."""

    def __init__(self, length: int = 5, *, terminates: bool = False) -> None:
        self.observation_space = spaces.Box(0, 1e6, (3,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 4])
        self._length, self._terminates = length, terminates
        self._episode, self._step, self._seed = -1, 0, 0
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._seed = self._seed if seed is None else seed
        self._episode, self._step = self._episode + 1, 0
        return self._obs(0), {"episode": self._episode, "array": np.zeros(2)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self._step += 1
        over = self._step == self._length
        total = int(action.sum())
        return self._obs(total), float(total), over and self._terminates, over and not self._terminates, {}

    def _obs(self, total: int) -> Any:
        return np.array([self._seed, self._step, total], np.float32)


class Server:
    """`serve` in a thread; as a context it waits for its end and raises nothing: look at `error` and `played`."""

    def __init__(self, port: int, env: Any = None, *, wait_s: float = PATIENCE_S, **settings: Any) -> None:
        self.env = Tally() if env is None else env
        self.error: BaseException | None = None
        self.played: int | None = None
        self.episodes: list[tuple[int, int, float, str]] = []
        self._settings = {"episodes": None, "answer_s": PATIENCE_S, **settings, "wait_s": wait_s}
        self._thread = threading.Thread(target=self._run, args=(port,))

    def _run(self, port: int) -> None:
        try:
            self.played = serve(
                self.env, port, 7, on_episode=lambda *told: self.episodes.append(told), **self._settings
            )
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the server hangs"
