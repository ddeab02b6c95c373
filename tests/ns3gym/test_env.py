# SPDX-License-Identifier: BSD-3-Clause
"""Simulations of others as Gymnasium environments: one of ours, started or attached."""

import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym import Ns3GymEnv
from tests.ns3gym.leaks import free_port, nothing_left


def _flat(env: Ns3GymEnv, obs: Any) -> list[float]:
    return [float(number) for number in np.asarray(gymnasium.spaces.flatten(env.observation_space, obs))]


def _episode(env: Ns3GymEnv, seed: int | None) -> list[Any]:
    """Play one episode with sampled actions; return observations, rewards and its end."""
    obs, info = env.reset(seed=seed)
    seen: list[Any] = [_flat(env, obs), info]
    while True:
        env.action_space.seed(len(seen))
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append((_flat(env, obs), reward))
        if terminated or truncated:
            return [*seen, terminated, truncated]


@pytest.mark.parametrize("spaces", ["discrete", "box", "dict"])
def test_every_space_and_equal_seeds_equal_episodes(peer: str, spaces: str) -> None:
    with nothing_left():
        env = Ns3GymEnv(f"{peer} --spaces={spaces} --steps=12", seed=5)
        first = _episode(env, 5)
        assert first[1] == {"info": "step=0 seed=5", "sim_seed": 5}
        assert len(first) == 2 + 12 + 2
        assert all(0 <= reward <= 1 for _, reward in first[2:-2])
        other, again = _episode(env, 6), _episode(env, 5)
        assert first == again
        assert first != other
        env.close()
        env.close()


def test_an_action_is_understood_as_it_was_meant(peer: str) -> None:
    """The peer pays 1 for the level it showed."""
    env = Ns3GymEnv(f"{peer} --steps=30", seed=1)
    obs, _ = env.reset()
    for _ in range(30):
        obs, reward, _, _, _ = env.step(round(4 * float(obs[0])))
        assert reward == 1.0
    env.close()


@pytest.mark.parametrize(("end", "how"), [("time", (False, True)), ("game", (True, False))])
def test_time_that_is_up_truncates_and_a_game_that_is_over_terminates(
    peer: str, end: str, how: tuple[bool, bool]
) -> None:
    env = Ns3GymEnv([peer, "--steps=2", f"--end={end}"])
    assert _episode(env, None)[-2:] == list(how)
    with pytest.raises(DatapathError, match="no episode is running; reset the environment first"):
        env.step(0)
    assert _episode(env, None)[-2:] == list(how)
    env.close()


def test_it_passes_gymnasiums_own_check(peer: str) -> None:
    env = gymnasium.make("ncc/Ns3Gym-v0", command=peer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*symmetric and normalized space.*|.*render.*|.*spec.*")
        check_env(env.unwrapped, skip_close_check=False)


def test_unseeded_episodes_differ_and_follow_from_the_last_seed(peer: str) -> None:
    def seeds(env: Ns3GymEnv, seed: int | None) -> list[int]:
        first = env.reset(seed=seed)[1]["sim_seed"]
        return [first, *(env.reset()[1]["sim_seed"] for _ in range(3))]

    env = Ns3GymEnv(peer)
    drawn = seeds(env, 3)
    assert drawn[0] == 3
    assert len(set(drawn)) == 4
    assert seeds(env, 3) == drawn
    env.close()
    env = Ns3GymEnv(peer, seed=3)
    assert seeds(env, None) == drawn
    env.close()


def test_port_and_seed_go_where_the_command_wants_them(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Ns3GymEnv(f"bash -c '{peer} --openGymPort={{port}} --simSeed={{seed}} --steps=3; exit 0'", seed=9)
    assert env.reset()[1]["info"] == "step=0 seed=9"
    env.close()
    monkeypatch.chdir(Path(peer).parent)
    env = Ns3GymEnv("./peer", sim_args={"--steps": 1})
    env.reset()
    assert env.step(0)[3]
    env.close()


def test_attached_simulations_one_for_each_episode(peer: str) -> None:
    """Somebody else starts them; their seeds cannot be ours. A reset in the middle stops the one that runs."""
    port = free_port()
    statuses: list[int] = []

    def loop() -> None:
        commands = ([peer, f"--openGymPort={port}", f"--simSeed={seed}", "--steps=4"] for seed in (1, 2, 3))
        statuses.extend(subprocess.run(command, check=False).returncode for command in commands)

    thread = threading.Thread(target=loop)
    with nothing_left():
        thread.start()
        env = Ns3GymEnv(port=port)
        assert env.reset()[1] == {"info": "step=0 seed=1", "sim_seed": None}
        assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]
        with pytest.warns(UserWarning, match="cannot be told its seed: start it with --simSeed=7 yourself"):
            assert env.reset(seed=7)[1]["info"] == "step=0 seed=2"
        env.step(0)
        assert env.reset()[1]["info"] == "step=0 seed=3"
        env.close()
        thread.join()
    assert statuses == [0, 0, 0]


def test_bad_settings_are_one_sentence(peer: str, tmp_path: Path) -> None:
    absent = str(tmp_path / "simulation")
    for settings, message in (
        ({"command": None}, "port must be from 1 to 65535, got 0"),
        ({"command": peer, "port": 70000}, "port must be from 0 to 65535, got 70000"),
        ({"command": ""}, "command is empty; name the program"),
        ({"command": "a 'b"}, "command cannot be read"),
        ({"command": absent}, f"command names '{absent}', which is not a program"),
        ({"command": peer, "wait_s": 0}, "wait_s and answer_s must be above 0, got 0"),
        ({"command": peer, "seed": -1}, "seed must be from 0 to 4294967295"),
    ):
        with pytest.raises(ConfigError, match=message):
            Ns3GymEnv(**settings)
