# SPDX-License-Identifier: BSD-3-Clause
"""The environments on the simulator itself."""

import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from tests.envs.cases import poisson, rack
from tests.support.extras import needs_extra

TINY = rack(poisson(), hosts=2, periods=5)
pytestmark = [pytest.mark.filterwarnings("error:.*:UserWarning"), needs_extra("ns3")]


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
