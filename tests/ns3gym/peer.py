# SPDX-License-Identifier: BSD-3-Clause
"""A simulation that speaks ns3-gym's protocol as ns-3's scripts do, in every kind of space, and fails in every way.

Each step it draws a level, shows it, and pays for actions near it: 1 for the level itself, less the farther from it.
"""

import argparse
import os
import runpy
import signal
from pathlib import Path
from typing import Any

import zmq

SCHEMA = Path(__file__).parents[2] / "ncc" / "envs" / "ns3gym" / "schema.py"
PB = runpy.run_path(str(SCHEMA))["messages"]()  # the package would load Gymnasium in each of many processes


def container(kind: str, inner: Any, name: str = "", *, space: bool = False) -> Any:
    """A space or a value: its type, and the message for that type within."""
    made = (PB.SpaceDescription if space else PB.DataContainer)(type=getattr(PB, kind), name=name)
    (made.space if space else made.data).Pack(inner)
    return made


def discrete(n: int) -> Any:
    return container("Discrete", PB.DiscreteSpace(n=n), space=True)


def box(low: float, high: float, dtype: int, size: int, name: str = "") -> Any:
    return container("Box", PB.BoxSpace(low=low, high=high, dtype=dtype, shape=[size]), name, space=True)


def floats(values: list[float], name: str = "") -> Any:
    return container("Box", PB.BoxDataContainer(dtype=PB.FLOAT, shape=[len(values)], floatData=values), name)


def first_of(action: Any, message: Any, field: str) -> Any:
    """The first number of an action's container."""
    found = getattr(message.FromString(action.data.value), field)
    return found if field == "data" else found[0]


class Simulation:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.random, self.level = options, (options.simSeed * 2654435761 + 1) % 2**32, 0
        self.socket = zmq.Context().socket(zmq.REQ)
        self.socket.linger, self.socket.rcvtimeo = 0, 60_000
        self.socket.connect(f"tcp://127.0.0.1:{options.openGymPort}")

    def ask(self, message: bytes) -> bytes:
        self.socket.send(message)
        return bytes(self.socket.recv())

    def spaces(self) -> dict[str, Any]:
        act, obs = discrete(self.options.actions), box(0, 1, PB.FLOAT, 2)
        if self.options.spaces == "box":
            act = box(0, 1, PB.DOUBLE, 1)
        elif self.options.spaces == "dict":
            pair = PB.TupleSpace(element=[box(0, 1e9, PB.UINT, 2), discrete(2)])
            parts = [box(0, 1, PB.FLOAT, 2, "level"), container("Tuple", pair, "more", space=True)]
            obs = container("Dict", PB.DictSpace(element=parts), space=True)
            act = container("Tuple", PB.TupleSpace(element=[act, box(0, 1, PB.FLOAT, 1)]), space=True)
        return {"obsSpace": obs, "actSpace": act}

    def observation(self, step: int) -> Any:
        shown = [self.level / (self.options.actions - 1), step / self.options.steps]
        if self.options.fault == f"short@{step}":
            shown.pop()
        if self.options.spaces != "dict":
            return floats(shown)
        numbers = PB.BoxDataContainer(dtype=PB.UINT, shape=[2], uintData=[step, self.level])
        pair = [container("Box", numbers), container("Discrete", PB.DiscreteDataContainer(data=step % 2))]
        parts = [floats(shown, "level"), container("Tuple", PB.TupleDataContainer(element=pair), "more")]
        return container("Dict", PB.DictDataContainer(element=parts))

    def paid(self, action: Any) -> float:
        most = self.options.actions - 1
        if self.options.spaces == "discrete":
            chosen = first_of(action, PB.DiscreteDataContainer, "data") / most
        elif self.options.spaces == "box":
            chosen = first_of(action, PB.BoxDataContainer, "floatData")
        else:
            whole, real = PB.TupleDataContainer.FromString(action.data.value).element
            chosen = first_of(whole, PB.DiscreteDataContainer, "data") / most
            chosen = (chosen + first_of(real, PB.BoxDataContainer, "floatData")) / 2
        return float(1 - abs(chosen - self.level / most))

    def fail(self, hello: bytes) -> None:
        fault = self.options.fault.partition("@")[0]
        if fault == "exit":
            raise SystemExit(3)
        if fault == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "hang":
            signal.pause()
        if fault == "garbage":
            self.ask(b"\xff\xff this is no message")
        if fault == "again":
            self.ask(hello)
            raise SystemExit(0)

    def run(self) -> None:
        hello = PB.SimInitMsg(simProcessId=os.getpid(), wafShellProcessId=os.getppid(), **self.spaces())
        if PB.SimInitAck.FromString(self.ask(hello.SerializeToString())).stopSimReq:
            return
        reward, last = 0.0, self.options.steps
        for step in range(last + 1):
            self.random = (self.random * 1664525 + 1013904223) % 2**32
            self.level = (self.random >> 8) % self.options.actions
            if self.options.fault.endswith(f"@{step}"):
                self.fail(hello.SerializeToString())
            state = PB.EnvStateMsg(obsData=self.observation(step), reward=reward, isGameOver=step == last)
            state.reason = PB.GameOver if step == last and self.options.end == "game" else PB.SimulationEnd
            state.info = f"step={step} seed={self.options.simSeed}"
            act = PB.EnvActMsg.FromString(self.ask(state.SerializeToString()))
            if step == last or act.stopSimReq:
                return
            reward = self.paid(act.actData)


def main() -> None:
    parser = argparse.ArgumentParser(prog="peer", description=__doc__)
    for name, default in (("openGymPort", 5555), ("simSeed", 1), ("steps", 50), ("actions", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--spaces", choices=["discrete", "box", "dict"], default="discrete")
    parser.add_argument("--end", choices=["time", "game"], default="time")
    parser.add_argument("--fault", default="", help="exit, crash, hang, garbage, again or short, and @STEP")
    Simulation(parser.parse_args()).run()


if __name__ == "__main__":
    main()
