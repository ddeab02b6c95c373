# SPDX-License-Identifier: BSD-3-Clause
"""An agent's side that behaves as ns3-gym's `Ns3Env(port, startSim=False)` does, in our words.

Facts it keeps to: REP, bound to the port on all interfaces; the constructor takes the greeting and the first state;
``reset`` before any step returns that state again; a later one closes the socket (a stop is sent if the last state was
not the last) and does all of it anew; a state that is the last is answered with a stop within ``step``; ``close`` too
says stop, where it may. It never looks whether anybody is still there; only its patience is limited here, so that a
test ends.
"""

from typing import Any

import zmq

from ncc.envs.ns3gym.containers import pack, space_of, value_of
from ncc.envs.ns3gym.schema import messages
from tests.support.processes import PATIENCE_S

PATIENCE_MS = round(1e3 * PATIENCE_S)


class OldClient:
    def __init__(self, port: int) -> None:
        self.port = port
        self.dirty = False
        self._open()

    def _open(self) -> None:
        pb = messages()
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = context.socket(zmq.REP)
        self.socket.rcvtimeo = self.socket.sndtimeo = PATIENCE_MS
        self.socket.bind(f"tcp://*:{self.port}")
        hello = pb.SimInitMsg.FromString(self.socket.recv())
        self.pid = hello.simProcessId
        self.observation_space = space_of(hello.obsSpace, "observation space")
        self.action_space = space_of(hello.actSpace, "action space")
        self.socket.send(pb.SimInitAck(done=True).SerializeToString())
        self.stopped = False
        self._receive()

    def _receive(self) -> None:
        pb = messages()
        state = pb.EnvStateMsg.FromString(self.socket.recv())
        self.obs, self.reward, self.over, self.reason = (
            value_of(state.obsData, self.observation_space, "observation"),
            state.reward,
            state.isGameOver,
            state.reason,
        )
        self.info = str(state.info)  # theirs is an empty dictionary where it is empty
        if self.over:
            self._stop()

    def _stop(self) -> None:
        self.stopped = True
        self.socket.send(messages().EnvActMsg(stopSimReq=True).SerializeToString())

    def step(self, action: Any) -> tuple[Any, float, bool, Any]:
        self.dirty = True
        act = messages().EnvActMsg(actData=pack(self.action_space, action))
        self.socket.send(act.SerializeToString())
        self._receive()
        return self.obs, self.reward, self.over, self.info

    def reset(self) -> Any:
        if self.dirty:
            self.close()
            self.dirty = False
            self._open()
        return self.obs

    def close(self) -> None:
        if not self.stopped:
            self._stop()
        self.socket.context.destroy(linger=PATIENCE_MS)
