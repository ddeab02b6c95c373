# SPDX-License-Identifier: BSD-3-Clause
"""Whatever goes wrong is one clear error, again and again, and leaves no process, thread, socket or port."""

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym import Ns3GymEnv
from ncc.envs.ns3gym.bridge import Bridge, State
from ncc.envs.ns3gym.process import SimulationProcess
from ncc.envs.ns3gym.schema import messages
from tests.ns3gym.client import OldClient
from tests.ns3gym.leaks import free_port, nothing_left, port_is_free
from tests.ns3gym.served import Server, Tally
from tests.support.processes import PATIENCE_S, alive, eventually

TIMES = 10

SIMULATION_FAULTS = {
    "exit": "the simulation ended by itself with status 3 after step 2, and said nothing",
    "crash": "the simulation was killed by SIGSEGV after step 2",
    "garbage": "what follows step 2 must be a EnvStateMsg of ns3-gym's protocol, got 21 bytes of another kind",
    "again": r"the simulation on port \d+ sent no observation after step 2",
    "short": "the observation must have 2 numbers, as its space says, got 1",
    "hang": r"did not answer step 2 within 0.2 s; .* raise answer_s",
}


@pytest.fixture(autouse=True)
def _ends_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may take its time to end before it is said how it ended."""
    monkeypatch.setattr("ncc.envs.ns3gym.bridge.EXIT_S", PATIENCE_S)


def _play_on(env: Ns3GymEnv) -> None:
    """Steps until one fails."""
    while True:
        env.step(env.action_space.sample())
        time.sleep(0.002)


@pytest.mark.parametrize("fault", sorted(SIMULATION_FAULTS))
def test_a_simulation_that_fails_in_an_episode(peer: str, fault: str) -> None:
    """The next episode is another simulation, and works until it fails."""
    with nothing_left():
        env = Ns3GymEnv(f"{peer} --fault={fault}@2", answer_s=0.2 if fault == "hang" else PATIENCE_S)
        for _ in range(TIMES // 5):
            env.reset()
            env.step(0)
            with pytest.raises(DatapathError, match=SIMULATION_FAULTS[fault]):
                env.step(0)
            with pytest.raises(DatapathError, match="no episode is running; reset the environment first"):
                env.step(0)
        env.close()


def test_a_simulation_that_fails_before_it_connects(peer: str) -> None:
    with nothing_left():
        for _ in range(TIMES // 5):
            with pytest.raises(
                DatapathError,
                match=r"the simulation ended by itself with status 2 before it had connected; its last words: "
                r".*unrecognized arguments: --nonsense=1",
            ):
                Ns3GymEnv(f"{peer} --nonsense=1")


def test_no_simulation_within_the_time(peer: str) -> None:
    port = free_port()
    with nothing_left():
        for _ in range(TIMES // 5):
            with pytest.raises(
                DatapathError,
                match=f"no simulation connected to port {port} within 0.01 s; start it with --openGymPort={port}",
            ):
                Ns3GymEnv(port=port, wait_s=0.01)
            with pytest.raises(
                DatapathError, match=r"did not connect to port \d+ within 0.01 s: it must take --openGy"
            ):
                Ns3GymEnv("bash -c 'sleep 100; : {port} {seed}'", wait_s=0.01)
    assert port_is_free(port)


def test_a_port_that_is_in_use(peer: str) -> None:
    with socket.socket() as taken, nothing_left():
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for _ in range(TIMES):
            with pytest.raises(
                ConfigError, match=f"port {port} is in use by another program; choose another, or 0 for"
            ):
                Ns3GymEnv(peer, port=port)


def test_a_second_simulation_on_the_port(peer: str) -> None:
    port = free_port()
    with nothing_left():
        first = subprocess.Popen([peer, f"--openGymPort={port}", "--steps=1000000000"], stderr=subprocess.DEVNULL)
        env = Ns3GymEnv(port=port)
        env.reset()
        second = subprocess.Popen([peer, f"--openGymPort={port}"], stderr=subprocess.DEVNULL)
        with pytest.raises(
            DatapathError, match=f"a second simulation has connected to port {port} while the first runs"
        ):
            _play_on(env)
        env.close()
        for process in (first, second):
            process.kill()
            process.wait()


AGENT_FAULTS = {
    "goes": r"the agent on port \d+ has gone after step 1, without saying stop",
    "garbage": "the agent's answer to step 1 must be a EnvActMsg of ns3-gym's protocol, got 3 bytes of another kind",
    "other": "the action of step 2 must be of type Tuple, as its space says, got nothing",
    "frames": r"the message from port \d+ is not an answer of ns3-gym's protocol \(2 frames\)",
    "late": r"the agent on port \d+ gave no action after step 0 within 0.05 s; .* raise answer_s",
}


@pytest.mark.parametrize("fault", sorted(AGENT_FAULTS))
def test_an_agent_that_fails_in_an_episode(fault: str) -> None:
    """The agent is a socket of this process, closed as a killed one's would be."""
    with nothing_left():
        for _ in range(TIMES // 5):
            port = free_port()
            with Server(port, answer_s=0.05 if fault == "late" else PATIENCE_S) as server:
                client = OldClient(port)
                if fault != "late":
                    client.step((1, 1))
                if fault == "garbage":
                    client.socket.send(b"\xff\xff\xff")
                elif fault == "other":
                    client.socket.send(messages().EnvActMsg().SerializeToString())
                elif fault == "frames":
                    client.socket.send_multipart([b"", b""])
                if fault != "goes":
                    assert eventually(lambda: server.error is not None)
                client.socket.context.destroy(linger=0)
            assert isinstance(server.error, DatapathError)
            assert re.fullmatch(f".*{AGENT_FAULTS[fault]}.*", str(server.error))
            assert port_is_free(port)


def test_an_action_that_the_environment_refuses_is_the_agents_fault() -> None:
    class Strict(Tally):
        def step(self, action: object) -> tuple[object, float, bool, bool, dict[str, object]]:
            raise ConfigError("rates must be positive")

    port = free_port()
    with nothing_left(), Server(port, Strict()) as server:
        client = OldClient(port)
        assert client.step((1, 1))[2] is True  # it is told, for it would wait for ever
        client.close()
    assert str(server.error) == "the agent's action of step 1 cannot be used: rates must be positive"


def test_a_port_held_by_what_is_no_agent() -> None:
    with nothing_left(), socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        with Server(port, wait_s=0.3) as server:
            taken, _ = stranger.accept()
            taken.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + bytes(64))
            assert eventually(lambda: server.error is not None)
            taken.close()
    assert f"port {port}" in str(server.error)


def test_a_server_that_is_killed_is_seen_by_its_agent(tmp_path: Path) -> None:
    """Across processes, by SIGKILL: our agent's side says so, and the port is free again."""
    port = free_port()
    command = [sys.executable, "-m", "ncc.serve", f"port={port}", "scenario.duration_s=10"]
    with nothing_left(), subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as server:
        env = Ns3GymEnv(port=port)
        env.reset()
        env.step(env.action_space.sample())
        server.kill()
        with pytest.raises(DatapathError, match=f"the simulation on port {port} closed its connection after step"):
            _play_on(env)
        env.close()
    assert port_is_free(port)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_end_tells_its_agent(how: signal.Signals, tmp_path: Path) -> None:
    """While the agent thinks: ns3-gym's would wait for ever; here its episode is over after its next action."""
    port = free_port()
    command = [sys.executable, "-m", "ncc.serve", f"port={port}", "scenario.duration_s=10"]
    pipe = subprocess.PIPE
    with nothing_left(), subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=tmp_path, text=True) as server:
        client = OldClient(port)
        client.step(client.action_space.sample())
        server.send_signal(how)
        _, said = server.communicate()
        assert (server.returncode, said) == (130, "interrupted\n")
        obs, reward, over, _ = client.step(client.action_space.sample())
        assert (over, client.reason, reward) == (True, messages().SimulationEnd, 0)
        assert obs.shape == client.observation_space.shape
        client.close()
    assert port_is_free(port)


ORPHANS = """
import os, signal, sys
from pathlib import Path
from ncc.envs.ns3gym.process import SimulationProcess

for _ in range(int(sys.argv[1])):
    ready, told = os.pipe()
    owner = os.fork()
    if not owner:  # the one who starts a simulation, with a child of its own, and is killed
        words = ("bash", "-c", "sleep 1000 & echo $$ $!; trap '' TERM INT HUP; wait")
        process = SimulationProcess(words, Path("."))
        while len(process.last_words().split()) < 2:
            pass
        os.write(told, f"{process.pid} {process.last_words()}\\n".encode())
        signal.pause()
    print(os.read(ready, 100).decode(), end="", flush=True)
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    os.close(ready), os.close(told)
"""


def test_no_simulation_survives_whoever_started_it() -> None:
    """Killed by SIGKILL, with no chance to clean up; the simulation is a script with a child, as `./ns3 run` is."""
    ended = subprocess.run([sys.executable, "-c", ORPHANS, str(TIMES)], capture_output=True, text=True, check=True)
    processes = [int(pid) for pid in ended.stdout.split()]
    assert len(processes) == 3 * TIMES
    assert eventually(lambda: not any(map(alive, processes))), "some are still alive"


def test_an_interrupted_step_ends_the_simulation_on_close(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The close waits for nothing: the simulation was never told to stop."""
    main, wait, end = threading.get_ident(), Bridge.receive, SimulationProcess.end
    graces_s: list[float] = []

    def interrupted(bridge: Bridge, *given: Any) -> State:
        timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        try:
            return wait(bridge, *given)
        finally:
            timer.join()

    def ended(process: SimulationProcess, grace_s: float) -> None:
        graces_s.append(grace_s)
        end(process, grace_s)

    with nothing_left():
        env = Ns3GymEnv(f"{peer} --fault=hang@1")
        env.reset()
        monkeypatch.setattr(Bridge, "receive", interrupted)
        monkeypatch.setattr(SimulationProcess, "end", ended)
        with pytest.raises(KeyboardInterrupt):
            env.step(0)
        env.close()
    assert graces_s == [0.0]
