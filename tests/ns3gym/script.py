# SPDX-License-Identifier: BSD-3-Clause
"""A simulation in a thread of this process whose every message a test chooses; REQ, as ns-3's scripts are."""

import threading
from collections.abc import Sequence
from typing import Any

import zmq
from gymnasium import spaces

from ncc.envs.ns3gym.containers import describe
from ncc.envs.ns3gym.schema import messages
from tests.ns3gym.client import PATIENCE_MS
from tests.support.processes import PATIENCE_S


class Script:
    """States its spaces and says the containers in turn, the last as the last unless it just leaves.

    None is a state without observation.
    """

    def __init__(
        self,
        port: int,
        obs_space: spaces.Space[Any],
        containers: Sequence[Any],
        act_space: Any = None,
        *,
        leaves: bool = False,
    ) -> None:
        self._over = len(containers) if leaves else len(containers) - 1
        self._port, self._obs_space, self._containers = port, obs_space, containers
        self._act_space = spaces.Discrete(2) if act_space is None else act_space
        self.actions: list[Any] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        pb = messages()
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.linger, socket.rcvtimeo = 0, PATIENCE_MS
            socket.connect(f"tcp://127.0.0.1:{self._port}")
            hello = pb.SimInitMsg(obsSpace=describe(self._obs_space), actSpace=describe(self._act_space))
            socket.send(hello.SerializeToString())
            socket.recv()
            for index, container in enumerate(self._containers):
                state = pb.EnvStateMsg(obsData=container, isGameOver=index == self._over)
                socket.send(state.SerializeToString())
                act = pb.EnvActMsg.FromString(socket.recv())
                if act.stopSimReq:
                    return
                self.actions.append(act.actData)

    def __enter__(self) -> "Script":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the simulation hangs"
