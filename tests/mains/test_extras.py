# SPDX-License-Identifier: BSD-3-Clause
"""Without an extra: one sentence that names it, nothing left behind, and defaults that do without."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from packaging.requirements import Requirement

from ncc.core.extras import EXTRAS, MissingExtraError, is_installed, require_extra
from tests.house.files import ROOT
from tests.mains.commands import command
from tests.support.extras import needs_extra

NS3 = ("ns", "ncc.envs.ns3._ns3")
"""Modules that cannot be imported where the wheel of ns-3 is not installed."""
RLLIB = ("ray", "torch", "tensorboard")
JUDGED = "evaluation.datapaths=[packetsim]"


def without(modules: tuple[str, ...], arguments: tuple[str, ...], cwd: Path) -> subprocess.CompletedProcess[str]:
    """`python -m ncc.<arguments>` in a new folder `cwd`, where those modules cannot be imported."""
    (path := cwd.with_name("path")).mkdir()
    (path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n")
    cwd.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        command(*arguments), cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


UPDATES = ("experiment=ncc_groups", "agent.updates=rllib")
MISSING = [
    (NS3, ("evaluate", "datapath=ns3", "scenario=dumbbell", "controller=dctcp"), "ns3", "datapath=ns3 needs ns3"),
    (NS3, ("train", "evaluation.datapaths=[packetsim,ns3]"), "ns3", "datapath=ns3 needs ns3"),
    (("torch", "tensorboard"), ("train", JUDGED), "torch", "training needs torch and tensorboard"),
    (RLLIB, ("train", "agent=rllib_ppo", JUDGED), "rllib", "agent=rllib_* needs ray and torch and tensorboard"),
    (RLLIB, ("train", *UPDATES, JUDGED), "rllib", "agent.updates=rllib needs ray and torch and tensorboard"),
    (("ray",), ("sweep", "space.seed=[1]"), "rllib", "ncc sweep needs ray"),
    (("onnx",), ("export", "policy=ncc", "onnx=policy.onnx"), "export", "an ONNX model needs onnx"),
    (("pyroute2",), ("evaluate", "datapath=linux", "controller=dctcp"), "linux", "datapath=linux needs pyroute2"),
    (("zmq", "google.protobuf"), ("serve",), "ns3gym", "ns3-gym's protocol needs pyzmq and protobuf"),
]


def needing(modules: tuple[str, ...], arguments: tuple[str, ...], extra: str, says: str) -> ParameterSet:
    """A row of `MISSING` as a case of a test. Where torch is missing as well, training names that first."""
    marks = (needs_extra("torch"),) if arguments[0] == "train" and extra == "ns3" else ()
    if UPDATES[0] in arguments:
        marks = (needs_extra("ns3"),)  # what a recipe is laid over says before that it does without ns3
    return pytest.param(modules, arguments, extra, says, marks=marks, id=" ".join(arguments))


@pytest.mark.parametrize(("modules", "arguments", "extra", "says"), [needing(*row) for row in MISSING])
def test_a_missing_extra_is_named_in_one_sentence(
    modules: tuple[str, ...], arguments: tuple[str, ...], extra: str, says: str, tmp_path: Path
) -> None:
    done = without(modules, arguments, empty := tmp_path / "empty")
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"error: {says}, not installed here: pip install 'ncc[{extra}]'\n"
    assert list(empty.iterdir()) == []


def test_a_default_does_without_ns3_and_says_so(tmp_path: Path) -> None:
    arguments = ("scenario=dumbbell", "controller=dctcp", "seeds=1", "duration_s=0.005", "out=judged")
    done = without(NS3, ("evaluate", *arguments), tmp_path / "cwd")
    assert done.returncode == 0, done.stderr
    assert "ns3 is left out: datapath=ns3 needs ns3, not installed here: pip install 'ncc[ns3]'\n" in done.stderr
    assert [path.name for path in (tmp_path / "cwd" / "judged").iterdir() if path.is_dir()] == ["packetsim"]


def test_extras_are_those_of_the_package() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {extra: {Requirement(text).name for text in described[extra]} for extra in described}
    for extra, modules in EXTRAS.items():
        assert set(modules.values()) <= packages[extra]
    (everything,) = map(Requirement, described["all"])
    assert everything.extras == set(EXTRAS)


def test_a_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncc_no_such_package").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_installed("ncc_no_such_package")
    assert not is_installed("ncc_no_such_package.module")
    assert is_installed("numpy")


def test_only_what_is_asked_for_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncc.core.extras.is_installed", lambda module: module != "onnxruntime")
    require_extra("export", "exporting", "onnx")
    with pytest.raises(MissingExtraError, match=r"^checking needs onnxruntime, not installed here: pip install 'ncc"):
        require_extra("export", "checking")
