# SPDX-License-Identifier: BSD-3-Clause
"""The environments on the simulator itself."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.envs.rack import RackBatch
from tests.envs.cases import listed, poisson, rack, spec
from tests.support.extras import needs_extra

TINY = rack(poisson(), hosts=2, periods=5)
pytestmark = [pytest.mark.filterwarnings("error:.*:UserWarning"), needs_extra("ns3")]


def close(env: gymnasium.Env[Any, Any]) -> None:
    env.close()  # type: ignore[no-untyped-call]


def test_gymnasiums_own_checks() -> None:
    env = gymnasium.make("ncc/Rack-v0", datapath="ns3", scenario=TINY)
    check_env(env.unwrapped)
    close(env)


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
    done = subprocess.run(asked, capture_output=True, text=True, env=where, timeout=600, check=False)
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
