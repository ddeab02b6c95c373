# SPDX-License-Identifier: BSD-3-Clause
"""The environments on the simulator itself."""

import gc
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test  # type: ignore[import-untyped]

from ncc.core.errors import ConfigError
from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.envs.parallel import RackParallelEnv
from ncc.envs.rack import RackBatch
from ncc.harness.networks import InProcesses
from tests.envs.cases import listed, poisson, rack, spec
from tests.envs.test_rack import resident_bytes
from tests.support.extras import needs_extra

TINY = rack(poisson(), hosts=2, periods=5)
pytestmark = [pytest.mark.filterwarnings("error:.*:UserWarning"), needs_extra("ns3")]


def close(env: gymnasium.Env[Any, Any]) -> None:
    env.close()  # type: ignore[no-untyped-call]


def play(env: RackBatch, racks: int, hosts: int, epochs: int) -> list[Any]:
    """Everything that `epochs` random epochs give, rack r always with the actions of its own stream."""
    streams = [np.random.default_rng(r) for r in range(racks)]
    seen: list[Any] = [env.reset()]
    for _ in range(epochs):
        t = env.step(np.stack([rng.integers(0, 11, hosts) for rng in streams]))
        seen += [t.obs, t.reward, t.terminated, t.truncated, t.final_obs]
    return seen


def test_gymnasiums_own_checks() -> None:
    env = gymnasium.make("ncc/Rack-v0", datapath="ns3", scenario=TINY)
    check_env(env.unwrapped)
    close(env)


def test_two_simulations_at_a_time() -> None:
    one, two = (gymnasium.make("ncc/Rack-v0", datapath="ns3", scenario=TINY) for _ in range(2))
    for _ in range(2):
        first = [env.reset(seed=4)[0] for env in (one, two)]
        np.testing.assert_array_equal(*first)
        for level in (3, 10):
            moved = [env.step(np.full(2, level)) for env in (one, two)]
            np.testing.assert_array_equal(moved[0][0], moved[1][0])
    close(one)
    close(two)


WITHOUT_GUARD = """
import gymnasium, ncc
print("begins", flush=True)
small = {"scenario": "incast", "hosts": 4, "duration_s": 0.005, "datapath": "ns3"}
envs = [gymnasium.make("ncc/Rack-v0", **small) for _ in range(2)]
for env in envs:
    env.reset(seed=1)
for env in envs:
    env.step(env.action_space.sample())
    env.close()
print(len(__file__) > 0, __spec__)
"""


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(WITHOUT_GUARD)
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    asked = [sys.executable, str(script)]
    done = subprocess.run(asked, capture_output=True, text=True, env=where, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begins\nTrue None\n", "")


def test_a_vector_has_a_process_for_each_rack() -> None:
    env, plain = (gymnasium.make_vec("ncc/Rack-v0", 2, m, datapath="ns3", scenario=TINY) for m in (None, "sync"))
    np.testing.assert_array_equal(env.reset(seed=4)[0], plain.reset(seed=4)[0])
    for _ in range(7):
        moved = [each.step(np.full((2, 2), 10)) for each in (env, plain)]
        for mine, theirs in zip(moved[0][:4], moved[1][:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    env.close()
    plain.close()


def test_pettingzoos_own_checks() -> None:
    env = RackParallelEnv(datapath="ns3", scenario=TINY)
    parallel_api_test(env, num_cycles=20)
    env.close()


def test_the_default_environment_runs() -> None:
    env = gymnasium.make("ncc/Rack-v0")
    obs, info = env.reset(seed=1)
    started = 0
    assert obs.shape == (16 * 53,)
    for _ in range(20):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(obs)
        assert np.isfinite(float(reward))
        assert not terminated
        assert not truncated
        started = info["flows_started"]
    assert started > 0
    close(env)


def test_a_delivered_list_terminates_and_limits_bind() -> None:
    scenario = rack(listed((0.0, "h0", 50_000)), hosts=2, periods=40)

    def epochs(level: int) -> int:
        env = RackBatch(spec(scenario), Ns3Datapath, seed=1)
        env.reset()
        n = 0
        while True:
            n += 1
            t = env.step(np.full((1, 2), level))
            if t.terminated[0] or t.truncated[0]:
                env.close()
                assert t.terminated[0]
                return n

    # 50 kB of payload are 400 kbit: under 1 ms at line rate, 4 ms at 100 Mbit/s.
    assert epochs(10) <= 2
    assert 4 <= epochs(1) <= 6


def test_workers_equal_racks_in_this_process_bit_for_bit() -> None:
    what = spec(rack(poisson(), hosts=4, periods=8))
    apart = []
    for r in range(2):
        env = RackBatch(what, Ns3Datapath, 5, r)
        rng = np.random.default_rng(r)
        seen: list[Any] = [env.reset()]
        for _ in range(20):
            t = env.step(rng.integers(0, 11, (1, 4)))
            seen += [t.obs, t.reward, t.terminated, t.truncated, t.final_obs]
        env.close()
        apart.append(seen)
    with closing(RackBatch(what, InProcesses(Ns3Datapath), 5, 0, 2)) as workers:
        together = play(workers, 2, 4, 20)
    for mine, *theirs in zip(together, *apart, strict=True):
        np.testing.assert_array_equal(mine, np.concatenate(theirs))


def test_same_seed_same_episodes() -> None:
    def run(seed: int) -> list[Any]:
        env = RackBatch(spec(rack(poisson(), periods=6)), Ns3Datapath, seed)
        seen = play(env, 1, 4, 15)
        env.close()
        return seen

    one, two, other = run(1), run(1), run(2)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_thousand_resets_leak_neither_memory_nor_descriptors() -> None:
    env = RackBatch(spec(TINY), Ns3Datapath, seed=1)

    def resets(n: int) -> None:
        for episode in range(n):
            env.reset(episode)
            for _ in range(2):
                env.step(np.full((1, 2), 10))
        gc.collect()

    resets(200)
    before, files = resident_bytes(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - Path.iterdir opens one itself
    resets(800)
    assert resident_bytes() - before < 8 * 2**20
    assert len(os.listdir("/proc/self/fd")) <= files  # noqa: PTH208
    env.close()


def test_a_missing_extension_says_what_to_do() -> None:
    code = (
        "import sys; sys.modules['ncc.envs.ns3._ns3'] = None\n"
        "from ncc.core.errors import NccError\n"
        "from ncc.envs.gym import RackEnv\n"
        "try: RackEnv(datapath='ns3').reset()\n"
        "except NccError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "make build" in done.stdout


@pytest.mark.parametrize("settings", [{"stack": {"transport": "dctpc"}}, {"stack": {"order": "alphabetic"}}])
def test_unknown_parts_of_the_stack_are_refused(settings: dict[str, Any]) -> None:
    env = gymnasium.make("ncc/Rack-v0", datapath="ns3", scenario=TINY, **settings)
    with pytest.raises(ConfigError, match="Unknown"):
        env.reset()
    close(env)
