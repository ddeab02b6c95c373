# SPDX-License-Identifier: BSD-3-Clause
"""The simulation's end of ns3-gym's protocol: it connects to an agent, sends its spaces, and asks for each action.

The agent (``Ns3Env(port=..., startSim=False)``) listens; each of its episodes is a new connection from here.
"""

import os
import time
from contextlib import suppress
from typing import Any

from ncc.core.errors import DatapathError
from ncc.envs.ns3gym.containers import Space, describe, pack, parse, value_of
from ncc.envs.ns3gym.link import Link, Lost, TimedOut
from ncc.envs.ns3gym.schema import messages

AGAIN_S = 0.02
"""Seconds between two attempts to connect."""


class AgentLeft(DatapathError):  # noqa: N818 - names an event
    """Error: no agent began an episode in time. This is normal between two episodes."""


class AgentLink:
    """One episode's connection to an agent.

    Args:
        port: port of this machine on which the agent listens.
        obs_space: observation space, as `ncc.envs.ns3gym.containers.wire_space` gives it.
        act_space: action space, also by `wire_space`.
        wait_s: longest time to wait for an agent.
        answer_s: longest time that an agent may take for an action.

    Raises:
        AgentLeft: no agent came in time.
        DatapathError: the program at the port is not an agent, or it refused.
    """

    def __init__(self, port: int, obs_space: Space, act_space: Space, wait_s: float, answer_s: float) -> None:
        self._port, self._answer_s, self._obs_space, self._act_space = port, answer_s, obs_space, act_space
        self.steps = 0
        self._last_state: Any = None
        hello = messages().SimInitMsg(
            simProcessId=os.getpid(),
            wafShellProcessId=os.getppid(),
            obsSpace=describe(obs_space),
            actSpace=describe(act_space),
        )
        self._link, answer = self._introduced(hello.SerializeToString(), wait_s)
        try:
            ack = parse("SimInitAck", answer, "the agent's first answer")
            self.stopped = bool(ack.stopSimReq)
            """True if the agent asked to stop or has gone, or the episode is over."""
            if not ack.done and not self.stopped:
                raise DatapathError(
                    f"the agent on port {port} did not accept the spaces (its SimInitAck says not done)"
                )
        except BaseException:
            self.close()
            raise

    def tell(self, obs: Any, reward: float, info: str, *, terminated: bool = False, truncated: bool = False) -> Any:
        """Send a state and return the agent's action; None if the agent says stop or the episode is over.

        Raises:
            DatapathError: the agent disconnected, gave no action in time, or broke the protocol.
        """
        pb = messages()
        over = terminated or truncated
        state = pb.EnvStateMsg(obsData=pack(self._obs_space, obs), reward=reward, isGameOver=over, info=info)
        state.reason = pb.GameOver if terminated else pb.SimulationEnd
        try:
            self._link.send((b"", state.SerializeToString()))
            self._last_state = state
            answer = self._payload(self._link.receive(self._answer_s))
        except Lost:
            self.stopped = True
            raise DatapathError(
                f"the agent on port {self._port} has gone after step {self.steps}, without saying stop"
            ) from None
        except TimedOut:
            raise DatapathError(
                f"the agent on port {self._port} gave no action after step {self.steps} within {self._answer_s:g} s; "
                "if that is how long it learns, raise answer_s"
            ) from None
        act = parse("EnvActMsg", answer, f"the agent's answer to step {self.steps}")
        if act.stopSimReq or over:
            self.stopped = True
            return None
        self.steps += 1
        return value_of(act.actData, self._act_space, f"action of step {self.steps}")

    def leave(self) -> None:
        """Tell the agent that the simulation is over, if it has received a state.

        Without this message, ns3-gym's agent would wait for ever. The agent reads the message as the answer to its next
        action; that action has no effect.
        """
        if self._last_state is not None and not self.stopped:
            pb = messages()
            last = pb.EnvStateMsg(obsData=self._last_state.obsData, isGameOver=True, reason=pb.SimulationEnd)
            with suppress(Lost):  # it has gone as well
                self._link.send((b"", last.SerializeToString()))

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._link.close()

    def _introduced(self, hello: bytes, wait_s: float) -> tuple[Link, bytes]:
        """Connect to an agent and return the connection and the agent's answer.

        The first listener may be about to close: ns3-gym's agent keeps its socket until it is reset, and messages that
        wait in it are lost. If a connection ends without an answer, the greeting is sent again over a new one.
        """
        deadline_s = time.monotonic() + wait_s
        while True:
            # REP accepts a DEALER like a REQ, and only a DEALER may send out of turn, as `leave` does.
            link = Link("DEALER", f"tcp://127.0.0.1:{self._port}", bind=False)
            try:
                link.send((b"", hello))
                return link, self._payload(link.receive(max(0.0, deadline_s - time.monotonic())))
            except Lost:
                link.close(linger_ms=0)
                time.sleep(AGAIN_S)
            except TimedOut:
                link.close(linger_ms=0)
                raise self._nobody(wait_s, link) from None
            except BaseException:
                link.close(linger_ms=0)
                raise

    def _payload(self, frames: list[bytes]) -> bytes:
        if len(frames) != 2 or frames[0]:
            raise DatapathError(
                f"the message from port {self._port} is not an answer of ns3-gym's protocol ({len(frames) - 1} frames)"
            )
        return frames[1]

    def _nobody(self, wait_s: float, link: Link) -> DatapathError:
        if link.connected:
            return AgentLeft(
                f"what listens on port {self._port} began no episode within {wait_s:g} s; reset it if it is an agent, "
                "or raise wait_s"
            )
        return AgentLeft(
            f"no agent listened on port {self._port} within {wait_s:g} s; start one, "
            f"Ns3Env(port={self._port}, startSim=False), or raise wait_s"
        )
