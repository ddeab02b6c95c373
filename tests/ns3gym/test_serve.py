# SPDX-License-Identifier: BSD-3-Clause
"""Environments of ours for agents of others: a client that behaves as ns3-gym's, and our own agent's side."""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.gym import RackEnv
from ncc.envs.make import DEFAULT_SCENARIO
from ncc.envs.ns3gym import Ns3GymEnv
from ncc.envs.ns3gym.agent import AgentLink
from ncc.envs.ns3gym.containers import Space, wire_space
from ncc.envs.ns3gym.schema import messages
from tests.mains.commands import ncc
from tests.ns3gym.client import OldClient
from tests.ns3gym.leaks import free_port, nothing_left
from tests.ns3gym.served import Server, Tally


def test_a_client_of_ns3gym_plays_episode_after_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones, one that it leaves in the middle, and a reset before any step, which begins no new one.

    The server ends when no client comes back.
    """
    port, last = free_port(), threading.Event()

    def link(port: int, obs_space: Space, act_space: Space, wait_s: float, answer_s: float) -> AgentLink:
        return AgentLink(port, obs_space, act_space, 0.1 if last.is_set() else wait_s, answer_s)

    monkeypatch.setattr("ncc.run.served.AgentLink", link)
    with nothing_left():
        with Server(port) as server:
            client = OldClient(port)
            assert client.reset().tolist() == [7, 0, 0]
            assert json.loads(client.info) == {"episode": 0}
            for _ in range(2):
                over, steps = False, 0
                while not over:
                    obs, reward, over, _ = client.step((2, 3))
                    steps += 1
                    assert (obs.tolist(), reward) == ([7, steps, 5], 5)
                assert steps == 5
                client.reset()
            client.step((0, 1))
            assert client.reset().tolist() == [7, 0, 0]
            assert json.loads(client.info) == {"episode": 3}
            last.set()
            client.close()
        assert server.error is None
        assert server.played == 3
        assert server.episodes == [
            (0, 5, 5.0, "time up"),
            (1, 5, 5.0, "time up"),
            (2, 1, 1.0, "stopped by the agent"),
        ]


@pytest.mark.parametrize(
    ("terminates", "reason", "how"), [(True, "GameOver", "over"), (False, "SimulationEnd", "time up")]
)
def test_how_an_episode_ends_is_said(terminates: bool, reason: str, how: str) -> None:
    port = free_port()
    with Server(port, Tally(1, terminates=terminates), episodes=1) as server:
        client = OldClient(port)
        assert client.step((0, 0))[2] is True
        assert client.reason == getattr(messages(), reason)
        client.close()
    assert [told[3] for told in server.episodes] == [how]


def test_a_greeting_that_went_to_a_closing_socket_is_said_again() -> None:
    """ns3-gym's client keeps its socket until it is reset; what was sent there meanwhile is lost."""
    port = free_port()
    with Server(port, episodes=3) as server:
        client = OldClient(port)
        for episode in range(3):
            while not client.step((1, 1))[2]:
                pass
            if episode == 2:
                break
            time.sleep(0.15)  # the server has greeted the old socket by now
            assert client.reset().tolist() == [7, 0, 0]
        client.close()
    assert (server.played, server.error) == (3, None)


def test_a_rack_served_by_the_command_is_the_rack_in_process(tmp_path: Path) -> None:
    """Both of our sides across processes, as a user types it; observations equal to the last bit."""
    served = (sys.executable, "-m", "ncc.serve", "port={port}", "seed={seed}", "scenario.duration_s=0.02", "episodes=1")
    with nothing_left():
        env = Ns3GymEnv(served, seed=4, folder=tmp_path)
        here = RackEnv(scenario=DEFAULT_SCENARIO.replace(duration_s=0.02), purpose="serve")
        assert env.action_space == wire_space(here.action_space)
        (obs, info), (mine, my_info) = env.reset(), here.reset(seed=4)
        assert env.observation_space.shape == here.observation_space.shape
        truncated = False
        for _ in range(20):
            assert not truncated
            np.testing.assert_array_equal(obs, mine)
            assert json.loads(info["info"]) == {name: my_info[name] for name in json.loads(info["info"])}
            action = here.action_space.sample()
            obs, reward, _, truncated, info = env.step(tuple(action.tolist()))
            mine, my_reward, _, my_truncated, my_info = here.step(action)
            assert (np.float32(reward), truncated) == (np.float32(my_reward), my_truncated)
        assert truncated
        env.close()
        here.close()


def test_the_command_says_what_was_wrong(tmp_path: Path) -> None:
    port = free_port()
    late = ncc("serve", f"port={port}", "wait_s=0.2", cwd=tmp_path)
    assert late.returncode == 1
    assert late.stderr == (
        f"error: no agent listened on port {port} within 0.2 s; start one, Ns3Env(port={port}, startSim=False), "
        "or raise wait_s\n"
    )
    assert list(tmp_path.iterdir()) == []
