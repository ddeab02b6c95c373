# SPDX-License-Identifier: BSD-3-Clause
"""An agent's side that behaves as ns3-gym's `Ns3Env(port, startSim=False)` does, in our words.

Facts it keeps to: REP, bound to the port on all interfaces; the constructor takes the greeting and the first state;
``reset`` before any step returns that state again; a later one closes the socket (a stop is sent if the last state was
not the last) and does all of it anew; a state that is the last is answered with a stop within ``step``; ``close`` too
says stop, where it may. Actions carry no bounds, numbers of a Box are one flat list, floats are FLOAT. It never looks
whether anybody is still there; only its patience is limited here, so that a test ends.
"""

from typing import Any

import numpy as np
import zmq
from gymnasium import spaces

from ncc.envs.ns3gym.schema import messages

PATIENCE_MS = 20_000


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
        self.observation_space, self.action_space = self._space(hello.obsSpace), self._space(hello.actSpace)
        self.socket.send(pb.SimInitAck(done=True).SerializeToString())
        self.stopped = False
        self._receive()

    def _receive(self) -> None:
        pb = messages()
        state = pb.EnvStateMsg.FromString(self.socket.recv())
        self.obs, self.reward, self.over, self.reason = (
            self._data(state.obsData),
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
        act = messages().EnvActMsg(actData=self._pack(action, self.action_space))
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
        self.socket.context.destroy()

    def _space(self, description: Any) -> Any:
        pb = messages()
        if description.type == pb.Discrete:
            inner = pb.DiscreteSpace()
            description.space.Unpack(inner)
            return spaces.Discrete(inner.n)
        if description.type == pb.Box:
            inner = pb.BoxSpace()
            description.space.Unpack(inner)
            kind = {pb.INT: np.int64, pb.UINT: np.uint64}.get(inner.dtype, np.float64)
            return spaces.Box(inner.low, inner.high, tuple(inner.shape), kind)
        assert description.type == pb.Tuple
        inner = pb.TupleSpace()
        description.space.Unpack(inner)
        return spaces.Tuple([self._space(part) for part in inner.element])

    def _data(self, container: Any) -> Any:
        pb = messages()
        assert container.type == pb.Box
        inner = pb.BoxDataContainer()
        container.data.Unpack(inner)
        fields = {pb.INT: inner.intData, pb.UINT: inner.uintData, pb.DOUBLE: inner.doubleData}
        return np.array(fields.get(inner.dtype, inner.floatData))

    def _pack(self, action: Any, space: Any) -> Any:
        pb = messages()
        container = pb.DataContainer()
        inner: Any
        if isinstance(space, spaces.Discrete):
            container.type, inner = pb.Discrete, pb.DiscreteDataContainer(data=int(action))
        elif isinstance(space, spaces.Box):
            container.type, inner = pb.Box, pb.BoxDataContainer(dtype=pb.FLOAT, shape=[len(action)])
            inner.floatData.extend(action)
        else:
            container.type, inner = pb.Tuple, pb.TupleDataContainer()
            inner.element.extend(self._pack(part, sub) for part, sub in zip(action, space.spaces, strict=True))
        container.data.Pack(inner)
        return container
