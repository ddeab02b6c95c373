# SPDX-License-Identifier: BSD-3-Clause
"""The agent's end of ns3-gym's protocol: a simulation connects, sends its spaces, and gets an action for each state.

The simulation has a REQ socket. Ours is a ROUTER. To the simulation it looks like ns3-gym's REP, but it also knows the
simulations by their addresses: a message of a dead simulation is not taken for a message of the next one.
"""

import copy
import errno
import select
import time
from dataclasses import dataclass
from typing import Any

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym.containers import Incomplete, LetThrough, Space, pack, parse, space_of, value_of
from ncc.envs.ns3gym.link import Ended, Link, Lost, TimedOut
from ncc.envs.ns3gym.process import SimulationProcess
from ncc.envs.ns3gym.schema import messages

EXIT_S = 2.0
"""Seconds to wait for the end of a process whose connection has ended, so that its exit status can be reported."""


@dataclass(frozen=True)
class State:
    """State that a simulation sends after each action."""

    obs: Any
    reward: float
    game_over: bool
    time_up: bool
    """True if the game is over because the simulation's time is up, not because the task is done."""
    info: str


class Bridge:
    """A port of this machine on which simulations connect, one at a time.

    Args:
        port: port to listen on; 0: any free one.
        let_through: called with each tolerated deviation from the protocol; see `value_of`.

    Raises:
        ConfigError: the port is in use or not allowed, or pyzmq is missing.
    """

    def __init__(self, port: int, let_through: LetThrough) -> None:
        self._link, self._let_through = _bound(port), let_through
        self.port = self._link.port
        self._peer: bytes | None = None
        self._waiting = False
        self._obs: Any = None
        self.stop_sent = False
        """True if the last simulation was told to stop."""
        self._steps = 0
        self.obs_space: Space | None = None
        self.act_space: Space | None = None

    def accept(self, wait_s: float, process: SimulationProcess | None) -> State:
        """Wait for a simulation, set `obs_space` and `act_space` to its spaces, and return its first state.

        Raises:
            DatapathError: none connected within `wait_s`, the process ended, or the simulation broke the protocol.
        """
        deadline_s = time.monotonic() + wait_s
        self._peer, self._waiting, self._obs, self.stop_sent, self._steps = None, False, None, False, 0
        while True:
            peer, payload = self._frames(max(0.0, deadline_s - time.monotonic()), process, wait_s)
            hello = parse("SimInitMsg", payload, "the first message of a simulation")
            if hello.HasField("actSpace") and hello.HasField("obsSpace"):
                break
            if process is None and parse("EnvStateMsg", payload, "the first message").HasField("obsData"):
                # A late answer of a simulation that was given up on: stop it and wait for the next.
                self._link.send((peer, b"", messages().EnvActMsg(stopSimReq=True).SerializeToString()))
                continue
            raise DatapathError(
                f"the simulation on port {self.port} began without its spaces: its script must set callbacks for "
                "observation and action space, and its first message be a SimInitMsg"
            )
        self.obs_space = space_of(hello.obsSpace, "observation space")
        self.act_space = space_of(hello.actSpace, "action space")
        self._peer = peer
        self._send(messages().SimInitAck(done=True))
        return self.receive(max(1.0, deadline_s - time.monotonic()), process)

    def act(self, action: Any) -> None:
        """Answer the simulation with an action of `act_space`; `receive` returns the next state.

        Raises:
            ConfigError: this is not an action of `act_space`; the simulation still waits for one.
            DatapathError: the simulation has not asked for an action.
        """
        if not self._waiting or self.act_space is None:
            raise DatapathError("no episode is running; reset the environment first")
        answer = messages().EnvActMsg(actData=pack(self.act_space, action))
        self._steps += 1
        self._send(answer)

    def stop(self) -> None:
        """Tell the simulation to stop, if it waits for an answer."""
        if self._waiting:
            self._send(messages().EnvActMsg(stopSimReq=True))
            self.stop_sent = True
        self._peer = None

    def receive(self, wait_s: float, process: SimulationProcess | None) -> State:
        """Return the simulation's next state; if the game is over, tell it to stop, as ns3-gym does.

        Some scripts send no observation at the end, because a callback cleared it before `NotifySimulationEnd`. Then
        the last observation is repeated.
        """
        if self._peer is None or self.obs_space is None:
            raise DatapathError("no simulation is connected; reset the environment first")
        peer, payload = self._frames(wait_s, process, wait_s)
        if peer != self._peer:
            self._peer = None
            raise DatapathError(
                f"a second simulation has connected to port {self.port} while the first runs; give each its own port"
            )
        state = parse("EnvStateMsg", payload, f"what follows step {self._steps}")
        self._waiting = True
        read = State(
            obs=self._observed(state, self.obs_space),
            reward=float(state.reward),
            game_over=bool(state.isGameOver),
            time_up=state.reason == messages().SimulationEnd,
            info=str(state.info),
        )
        if read.game_over:
            self.stop()
        return read

    def _observed(self, state: Any, space: Space) -> Any:
        try:
            if not state.HasField("obsData"):
                raise Incomplete(
                    f"the simulation on port {self.port} sent no observation after step {self._steps}: either its "
                    "script returns none, or the message was none of EnvStateMsg"
                )
            self._obs = value_of(state.obsData, space, "observation", self._let_through)
        except Incomplete:
            if not state.isGameOver or self._obs is None:
                raise
            self._let_through("the simulation's last state lacks its observation: the one before is repeated")
            return copy.deepcopy(self._obs)
        return self._obs

    def close(self) -> None:
        """Close the socket once all messages have left; may be called twice."""
        self._waiting, self._peer = False, None
        self._link.close()

    def _frames(self, timeout_s: float, process: SimulationProcess | None, wait_s: float) -> tuple[bytes, bytes]:
        """Return the next message as its sender and payload."""
        known, deadline_s = self._peer is not None, time.monotonic() + timeout_s
        while True:
            try:
                frames = self._link.receive(timeout_s, None if process is None else process.ended_fd)
            except (Lost, Ended) as end:
                if not known and isinstance(end, Lost):
                    timeout_s = max(0.0, deadline_s - time.monotonic())
                    continue  # an attached simulation may be closing; our own are watched by their processes
                raise self._failed(_how(process, EXIT_S), process) from None
            except TimedOut:
                raise self._late(wait_s, process) from None
            if len(frames) != 3 or frames[1]:
                raise DatapathError(
                    f"the message to port {self.port} is not a request of ns3-gym's protocol ({len(frames)} frames)"
                )
            return frames[0], frames[2]

    def _failed(self, how: str, process: SimulationProcess | None) -> DatapathError:
        when = f"after step {self._steps}" if self._peer is not None else "before it had connected"
        self._waiting, self._peer = False, None
        if process is None:
            return DatapathError(f"the simulation on port {self.port} {how} {when}; look at what it says where it runs")
        words = process.last_words()
        quoted = f"; its last words: {words}" if words else ", and said nothing"
        hint = ""
        if how.endswith("status 0") and self._steps:
            hint = ". If that is its end, its script must say so: NotifySimulationEnd() after Simulator::Run()"
        return DatapathError(f"the simulation {how} {when}{quoted}{hint}")

    def _late(self, wait_s: float, process: SimulationProcess | None) -> DatapathError:
        if self._peer is not None:
            return DatapathError(
                f"the simulation on port {self.port} did not answer step {self._steps} within {wait_s:g} s; if that is "
                "how long it takes, raise answer_s"
            )
        if process is None:
            return DatapathError(
                f"no simulation connected to port {self.port} within {wait_s:g} s; start it with "
                f"--openGymPort={self.port}, or raise wait_s"
            )
        words = process.last_words()
        quoted = f"; its last words: {words}" if words else ""
        return DatapathError(
            f"the simulation did not connect to port {self.port} within {wait_s:g} s: it must take --openGymPort, or "
            f"its command name the port as {{port}}; if it is being built, raise wait_s{quoted}"
        )

    def _send(self, message: Any) -> None:
        assert self._peer is not None
        self._waiting = False
        self._link.send((self._peer, b"", message.SerializeToString()))


def _how(process: SimulationProcess | None, patience_s: float) -> str:
    """Describe how a simulation ended."""
    if process is not None and select.select([process.ended_fd], [], [], patience_s)[0]:
        return process.how_it_ended()
    return "closed its connection"


def _bound(port: int) -> Link:
    try:
        return Link("ROUTER", f"tcp://127.0.0.1:{port or '*'}", bind=True)
    except OSError as error:
        why = f"cannot be listened at ({error.strerror})"
        if error.errno == errno.EADDRINUSE:
            why = "is in use by another program"
        raise ConfigError(f"port {port} {why}; choose another, or 0 for any that is free") from None
