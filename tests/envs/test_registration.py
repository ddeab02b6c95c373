# SPDX-License-Identifier: BSD-3-Clause
"""Ids of Gymnasium, in fresh interpreters: what is imported first must not matter."""

import subprocess
import sys

import gymnasium
import pytest
from gymnasium import spaces

import ncc  # noqa: F401 - registers
from ncc.core.errors import ConfigError
from ncc.core.registration import IDS

MAKE = "env = gymnasium.make('ncc/Rack-v0', scenario='incast', hosts=8, duration_s=0.2); "
SHOW = "print(env.reset(seed=1)[0].shape, 'ncc/RackOne-v0' in gymnasium.registry)"


@pytest.mark.parametrize(
    "code",
    [
        f"import gymnasium, ncc; {MAKE}{SHOW}",
        f"import ncc, gymnasium; {MAKE}{SHOW}",
        f"import ncc, sys, importlib.util; importlib.util.find_spec('gymnasium'); import gymnasium; {MAKE}{SHOW}",
        f"import gymnasium; {MAKE.replace('ncc/Rack', 'ncc:ncc/Rack')}{SHOW}",
    ],
)
def test_importing_ncc_registers_in_either_order(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(232,) True\n"


def test_ncc_does_without_gymnasium() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import ncc, ncc.core.scenario, ncc.policies; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"


@pytest.mark.parametrize(
    ("name", "space"),
    [
        ("ncc/Rack-v0", spaces.MultiDiscrete([11] * 4)),
        ("ncc/RackBox-v0", spaces.Box(-1, 1, (4,))),
        ("ncc/RackOne-v0", spaces.Discrete(11)),
    ],
)
def test_each_id_has_its_space(name: str, space: "spaces.Space[object]") -> None:
    env = gymnasium.make(name, hosts=4, duration_s=0.01)
    assert env.action_space == space
    env.close()  # type: ignore[no-untyped-call]
    assert set(IDS) <= set(gymnasium.registry)


def test_a_space_that_the_actions_do_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"space 'box' has action.kind linear or log, got 'levels'"):
        gymnasium.make("ncc/RackBox-v0", action="levels")
    with pytest.raises(ConfigError, match=r"space 'discrete' has action.kind levels or shares, got 'log'"):
        gymnasium.make("ncc/RackOne-v0", action={"kind": "log"})
    with pytest.raises(ConfigError, match=r"space must be one of multi_discrete, box, discrete, got 'dict'"):
        gymnasium.make("ncc/Rack-v0", space="dict")
