# SPDX-License-Identifier: BSD-3-Clause
"""Any simulation that speaks ns3-gym's protocol, as a Gymnasium environment.

``import gymnasium, ncc; gymnasium.make("ncc/Ns3Gym-v0", command=...)`` makes one.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.bridge import Bridge, State
from ncc.envs.ns3gym.containers import LetThrough, Space
from ncc.envs.ns3gym.process import SimulationProcess, split_command

SEEDS = 2**32
"""Number of seeds: simSeed is an unsigned number of 32 bits in ns-3's scripts."""
STOP_S = 5.0
"""Seconds to wait for the end of a simulation after the request to stop; then it is killed."""


class Ns3GymEnv(gymnasium.Env[Any, Any]):
    """A simulation's script as an environment, started anew for each episode or attached.

    With `command`, each episode is a child process, which ends with this environment and with this process, however
    they end. ``--openGymPort=<port> --simSeed=<seed>`` are appended to the command, or replace ``{port}`` and
    ``{seed}`` if the command has them: ``./ns3 run 'rl-tcp --openGymPort={port} --simSeed={seed}'``.

    Without `command`, the environment waits on `port` for a simulation that the user starts, one for each episode.

    Observations and actions are of the simulation's spaces. An episode is *truncated* if the simulation says that its
    time is up (SimulationEnd) and *terminated* if it says that the game is over. ``info`` contains ``info``, the
    simulation's own text, and ``sim_seed``, None if it is unknown.

    Args:
        command: command that starts the simulation, as for a shell or as a list of words; None: attach.
        port: port of this machine; 0 with `command`: any free one.
        sim_args: more arguments for the simulation, as in ns3-gym: ``{"--simTime": 10}``.
        folder: working directory of the command.
        seed: simSeed of the first episode that is reset without a seed; later ones are drawn from it. None: any.
        wait_s: seconds that a simulation may take to connect, including a build by ``./ns3 run``.
        answer_s: seconds that a simulation may take between an action and the next state.
        output: let the simulation write to our terminal.
        render_mode: must be None.

    Raises:
        ConfigError: a setting or an action is not allowed, or pyzmq or protobuf is missing.
        DatapathError: the simulation did not connect, ended, or broke the protocol; it is ended in every case.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        port: int = 0,
        *,
        sim_args: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
        seed: int | None = None,
        wait_s: float = 60.0,
        answer_s: float = 600.0,
        output: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self._process: SimulationProcess | None = None
        self._bridge: Bridge | None = None
        if not 0 <= port < 2**16 or (command is None and port == 0):
            raise ConfigError(f"port must be from {0 if command else 1} to 65535, got {port}")
        if not (wait_s > 0 and answer_s > 0):  # refuses NaN too
            raise ConfigError(f"wait_s and answer_s must be above 0, got {wait_s} and {answer_s}")
        self.render_mode = render_mode
        self._folder, self._port = Path(folder), port
        self._words = None if command is None else split_command(command, self._folder, "command")
        self._more = tuple(f"{name}={value}" for name, value in (sim_args or {}).items())
        self._wait_s, self._answer_s, self._output = wait_s, answer_s, output
        self._let_through = _once()
        self._fresh: State | None = None
        self._spaces: tuple[Space, Space] | None = None
        self._seed = None if command is None else self._next_seed(seed)
        if seed is not None:
            super().reset(seed=seed)
        # The spaces are known only once the simulation is there, as in ns3-gym.
        self.observation_space, self.action_space = self._begin()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in a simulation with simSeed `seed`.

        If `seed` is None, the first episode has the seed of the constructor, and later ones draw theirs from the random
        generator. An attached simulation cannot be given a seed; a warning says so.

        Raises:
            ConfigError: ns-3 cannot take this seed.
            DatapathError: see the class.
        """
        super().reset(seed=seed)
        if self._words is None:
            if seed is not None:
                warnings.warn(
                    f"a simulation that is attached cannot be told its seed: start it with --simSeed={seed} yourself, "
                    "or let this environment start it (command=...)",
                    stacklevel=2,
                )
            wanted = None
        else:
            unused = self._fresh is not None and seed is None
            wanted = self._seed if unused else self._next_seed(seed)
        if self._fresh is None or wanted != self._seed:
            self._end()
            self._seed = wanted
            self._begin()
        state, self._fresh = self._fresh, None
        assert state is not None
        return state.obs, self._info(state)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step; the class says what ends an episode.

        Raises:
            DatapathError: no episode is running, or see the class.
        """
        if self._bridge is None:
            raise DatapathError("no episode is running; reset the environment first")
        self._bridge.act(action)
        self._fresh = None
        try:
            state = self._bridge.receive(self._answer_s, self._process)
        except DatapathError:
            self._end()
            raise
        over, time_up = state.game_over, state.time_up
        return state.obs, state.reward, over and not time_up, over and time_up, self._info(state)

    def close(self) -> None:
        """End the simulation and free the port; may be called twice."""
        self._end()
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None

    def _begin(self) -> tuple[Space, Space]:
        """Get a simulation to its first state, and return its spaces."""
        bridge = self._bridge
        if bridge is None:
            bridge = self._bridge = Bridge(self._port, self._let_through)
        try:
            if self._words is not None:
                self._process = SimulationProcess(self._command(bridge.port), self._folder, output=self._output)
            self._fresh = bridge.accept(self._wait_s, self._process)
            assert bridge.obs_space is not None
            assert bridge.act_space is not None
            sent = (bridge.obs_space, bridge.act_space)
            known = self._spaces = self._spaces or sent
            if sent != known:
                raise DatapathError(
                    f"the simulation's spaces have changed from {known[0]} and {known[1]} to {sent[0]} and "
                    f"{sent[1]}; make an environment of its own for it"
                )
            if self._fresh.game_over:
                raise DatapathError("the simulation was over before its first step; let it run for longer")
            return sent
        except BaseException:
            self.close()
            raise

    def _end(self) -> None:
        """Tell the simulation to stop; a child process has ended when this returns, and its port is free."""
        self._fresh, stop_sent = None, False
        if self._bridge is not None:
            self._bridge.stop()
            stop_sent = self._bridge.stop_sent
        if self._process is not None:
            process, self._process = self._process, None
            if self._bridge is not None:
                self._bridge.close()
                self._bridge = None
            process.end(STOP_S if stop_sent else 0.0)

    def _command(self, port: int) -> tuple[str, ...]:
        """Return the command with port, seed and more arguments."""
        assert self._words is not None
        values, missing = {"{port}": str(port), "{seed}": str(self._seed)}, []
        for mark, option in (("{port}", "--openGymPort"), ("{seed}", "--simSeed")):
            if not any(mark in word for word in self._words):
                missing.append(f"{option}={values[mark]}")
        words = [word.replace("{port}", values["{port}"]).replace("{seed}", values["{seed}"]) for word in self._words]
        return (*words, *missing, *self._more)

    def _next_seed(self, seed: int | None) -> int:
        if seed is None:
            return int(self.np_random.integers(1, 2**31))  # some scripts keep it signed
        if not 0 <= seed < SEEDS:
            raise ConfigError(f"seed must be from 0 to {SEEDS - 1}, which is what ns-3's simSeed can be, got {seed}")
        return seed

    def _info(self, state: State) -> dict[str, Any]:
        return {"info": state.info, "sim_seed": self._seed}


def _once() -> LetThrough:
    """Return a function that warns once of each deviation that ns3-gym's own agents tolerate too.

    This must not be a method of the environment: the cycle of references would let the garbage collector close the
    socket in an order in which libzmq waits for ever.
    """
    warned: set[str] = set()

    def tell(what: str) -> None:
        if what not in warned:
            warned.add(what)
            warnings.warn(what, stacklevel=2)

    return tell
