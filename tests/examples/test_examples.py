# SPDX-License-Identifier: BSD-3-Clause
"""Every example runs as it stands, with fewer steps, and what it leaves is a controller as it says."""

import ctypes
import runpy
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.envs.make import DEFAULT_SCENARIO
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.scenarios import make_scenario
from ncc.harness.run import eval_flow_seed, run_once
from ncc.run.config_files import use_config_dir
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.docs.quoted import NUMBER, blocks, quoted
from tests.house.files import ROOT, tracked
from tests.mains.commands import ncc
from tests.support.linux import needs

PAGE = "docs/agents/README.md"
FOLDER = Path(__file__).parents[2] / "examples"
SHORT = DEFAULT_SCENARIO.replace(duration_s=0.01, drain_s=0.01)
Example = Callable[..., str]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Example]:
    """Runs an example as a script, in a folder of its own; the last line that it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(name: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(FOLDER / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    yield run
    for name in ("own_controller", "cleanrl_ppo"):
        sys.modules.pop(name, None)


def stands(name: str, scenario: Scenario = SHORT) -> None:
    """As a controller of that name it decides, however badly after so few steps."""
    factory = LimiterFactory(None)
    controller = factory.resolved(load_controller(name))
    limiter = factory(controller, scenario)
    run = run_once(PacketsimDatapath(), scenario, controller, limiter, 3, flow_seed=eval_flow_seed(3))
    assert run.records.flows.finish_s.shape == (len(run.flows),)
    assert factory.inputs(controller), "what it was made from is part of its results"


def test_all_are_short_and_run_here() -> None:
    here = Path(__file__).read_text()
    files = [ROOT / path for path in tracked() if path.startswith("examples/")]
    assert files
    for file in files:
        assert len(file.read_text().splitlines()) < 90, file.name
        assert file.name in here, file.name


@needs("clang")
def test_tell_size(tmp_path: Path) -> None:
    """Both send a message whole where nobody takes its size: tell_size.c, tell_size.py."""
    sent = runpy.run_path(str(FOLDER / "tell_size.py"))["send_message"]
    here, there = socket.socketpair()
    with here, there:
        sent(here, b"x" * 1000)
        assert there.recv(2000) == b"x" * 1000
        library, source = str(tmp_path / "tell_size.so"), str(FOLDER / "tell_size.c")
        subprocess.run(["clang", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
        assert ctypes.CDLL(library).send_message(here.fileno(), b"y" * 1000, 1000) == 1000
        assert there.recv(2000) == b"y" * 1000


def test_sb3_ppo(example: Example) -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra sb3)")
    told = example("sb3_ppo.py", "--steps", "512", "--rollout", "8")
    assert told == "ncc evaluate controller=ncc,dctcp,sb3_ppo.zip scenario=rack datapath=packetsim"
    stands("sb3_ppo.zip")


def test_sb3_thresholds(example: Example) -> None:
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra sb3)")
    assert example("sb3_thresholds.py", "--decisions", "240").startswith("ncc evaluate controller=thresholds.ncc,dctcp")
    stands("thresholds.ncc", make_scenario("priorities", duration_s=0.05))
    example("sb3_thresholds.py", "--decisions", "16", "--curve", "curve")
    with np.load("curve/evaluations.npz") as held_out:
        assert held_out["timesteps"].tolist() == [8, 16]
        rewards = held_out["results"]
    assert rewards.shape == (2, 8), "a reward of each network"
    np.testing.assert_allclose(rewards[0], rewards[1], atol=0.5, err_msg="the policy has hardly learned on these flows")


@pytest.mark.rllib
@pytest.mark.usefixtures("ray_here")
def test_rllib_offline(example: Example, tmp_path: Path) -> None:
    recording = ("record=true", "scenario=rack", "controller=max_min", "seeds=1", "scenario.duration_s=0.01")
    done = ncc("evaluate", *recording, "datapath=packetsim", "out=recorded", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = example("rllib_offline.py", "recorded", "--updates", "3")
    assert told == "ncc evaluate controller=ncc,dctcp,rllib_marwil scenario=rack datapath=packetsim"
    stands("rllib_marwil")


def test_ns3gym_sb3(example: Example) -> None:
    for module, extra in (("stable_baselines3", "sb3"), ("zmq", "ns3gym")):
        pytest.importorskip(module, reason=f"{module} is not installed (the extra {extra})")
    short = ("--envs", "1", "--steps", "256", "--judged", "100", "--folder", str(ROOT))
    told = example("ns3gym_sb3.py", f"{sys.executable} {ROOT}/tests/ns3gym/peer.py --steps=500", *short)
    earned = [float(number) for number in NUMBER.findall(told)]
    assert len(earned) == 2
    assert all(0 < mean < 1 for mean in earned)


@pytest.mark.parametrize(
    ("name", "controller"), [("sb3_pairs.py", "sb3_pairs"), ("cleanrl_pairs.py", "cleanrl_pairs.ncc")]
)
def test_in_pairs_learners_improve_a_formula_and_decide(
    example: Example, name: str, controller: str, tmp_path: Path
) -> None:
    """On own_incast.yaml, in a fiftieth of what the page quotes and more, which prints in the same form."""
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra sb3)")
    shown = quoted(PAGE, f"python {name}")[1].strip()
    told = example(name, "--periods", "8000")
    assert NUMBER.sub("#", told) == NUMBER.sub("#", shown)
    assert float(NUMBER.findall(shown)[0]) < float(NUMBER.findall(told)[0]) < 0.99
    folder = tmp_path / "my_configs" / "controllers"
    folder.mkdir(parents=True)
    yaml = next(text for kind, text in blocks(PAGE) if "sb3_pairs.zip" in text and kind == "yaml")
    (folder / "sb3_pairs.yaml").write_text(yaml)
    use_config_dir(tmp_path / "my_configs")
    stands(controller, make_scenario(FOLDER / "own_incast.yaml").replace(duration_s=0.04, drain_s=0.01))
    use_config_dir(None)


def test_the_code_that_the_page_shows_is_the_example_s() -> None:
    code = next(text for kind, text in blocks(PAGE) if kind == "python")
    assert textwrap.indent(code, "    ") in (FOLDER / "sb3_pairs.py").read_text()


def test_pettingzoo_supersuit(example: Example) -> None:
    pytest.importorskip("supersuit", reason="supersuit is not installed (the extra dev)")
    assert "dctcp,a2c.zip " in example("pettingzoo_supersuit.py", "--steps", "1024")
    stands("a2c.zip")


def test_cleanrl_ppo(example: Example, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (the extra torch)")
    assert example("cleanrl_ppo.py", "1").startswith("mean reward -0.")
    (tmp_path / "cleanrl_ppo.py").write_text((FOLDER / "cleanrl_ppo.py").read_text())
    stands("cleanrl_ppo:TrainedAgent")


@pytest.mark.rllib
@pytest.mark.usefixtures("ray_here")
def test_rllib_plain(example: Example) -> None:
    assert "dctcp,rllib_ppo " in example("rllib_plain.py", "--steps", "64", "--batch", "64")
    stands("rllib_ppo")


def test_own_controller(example: Example, tmp_path: Path) -> None:
    (tmp_path / "own_controller.py").write_text((FOLDER / "own_controller.py").read_text())
    stands("own_controller:EqualShare")


def test_own_scenario(example: Example, tmp_path: Path) -> None:
    (tmp_path / "own_sizes.txt").write_text((FOLDER / "own_sizes.txt").read_text())
    scenario = make_scenario(FOLDER / "own_scenario.yaml")
    sizes = scenario.flows(1).size_bytes
    assert (scenario.n_agents, sizes.max() <= 10_000_000) == (8, True)
