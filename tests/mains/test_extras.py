# SPDX-License-Identifier: BSD-3-Clause
"""Without an extra: one sentence that names it, nothing left behind, and defaults that do without."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from packaging.requirements import Requirement

from ncc.core.extras import EXTRAS, MissingExtraError, install_command, is_installed, require_extra
from tests.house.files import ROOT
from tests.support.extras import needs_extra

NS3 = ("ns", "ncc.envs.ns3._ns3")
"""Modules that cannot be imported where the wheel of ns-3 is not installed."""
RLLIB = ("ray", "torch", "tensorboard")
JUDGED = "evaluation.datapaths=[packetsim]"


MISSING = [
    (NS3, ("evaluate", "datapath=ns3", "scenario=dumbbell", "controller=dctcp"), "ns3", "datapath=ns3 needs ns3"),
    (NS3, ("train", "evaluation.datapaths=[packetsim,ns3]"), "ns3", "datapath=ns3 needs ns3"),
    (("torch", "tensorboard"), ("train", JUDGED), "torch", "training needs torch and tensorboard"),
    (RLLIB, ("train", "agent=rllib_ppo", JUDGED), "rllib", "agent=rllib_* needs ray and torch and tensorboard"),
    (("optuna",), ("sweep", "space.seed=[1]"), "sweep", "ncc sweep needs optuna"),
    (("onnx",), ("export", "policy=ncc", "onnx=policy.onnx"), "export", "an ONNX model needs onnx"),
    (("zmq", "google.protobuf"), ("serve",), "ns3gym", "ns3-gym's protocol needs pyzmq and protobuf"),
]


DEFAULT = ("evaluate", "scenario=dumbbell", "controller=dctcp", "seeds=1", "duration_s=0.005", "out=judged")
FORKED = """
import json, os, sys
from pathlib import Path
from tests.mains.commands import here

for modules, arguments, folder in json.load(sys.stdin):
    ready, told = os.pipe()
    if not os.fork():
        assert not {*modules} & {*sys.modules}
        sys.modules.update(dict.fromkeys(modules))
        done = here(*arguments, cwd=Path(folder))
        os.write(told, json.dumps([done.returncode, done.stderr]).encode())
        os._exit(0)
    os.close(told)
    with os.fdopen(ready) as said:
        print(said.read())
    os.wait()
"""
"""Starts of mains in processes that have loaded what all of them need, and cannot import some modules."""
Started = dict[tuple[str, ...], tuple[int, str, Path]]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Exit status, error output and folder of each command of `MISSING` and of `DEFAULT`."""
    rows = [*((modules, arguments) for modules, arguments, *_ in MISSING), (NS3, DEFAULT)]
    folders = [tmp_path_factory.mktemp("empty") for _ in rows]
    asked = json.dumps([(*row, str(folder)) for row, folder in zip(rows, folders, strict=True)])
    done = subprocess.run(
        [sys.executable, "-c", FORKED], input=asked, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return {arguments: (*one, folder) for (_, arguments), one, folder in zip(rows, said, folders, strict=True)}


def needing(_: tuple[str, ...], arguments: tuple[str, ...], extra: str, says: str) -> ParameterSet:
    """A row of `MISSING` as a case of a test. Where torch is missing as well, training names that first."""
    marks = (needs_extra("torch"),) if arguments[0] == "train" and extra == "ns3" else ()
    return pytest.param(arguments, extra, says, marks=marks, id=" ".join(arguments))


@pytest.mark.parametrize(("arguments", "extra", "says"), [needing(*row) for row in MISSING])
def test_a_missing_extra_is_named_in_one_sentence(
    arguments: tuple[str, ...], extra: str, says: str, started: Started
) -> None:
    status, said, folder = started[arguments]
    assert status == 2, said
    assert said == f"error: {says}, not installed here: {install_command(extra)}\n"
    assert list(folder.iterdir()) == []


def test_a_default_does_without_ns3_and_says_so(started: Started) -> None:
    status, said, folder = started[DEFAULT]
    assert status == 0, said
    assert "ns3 is left out: datapath=ns3 needs ns3, not installed here: pip install ns3 (the extra ns3)\n" in said
    assert [path.name for path in (folder / "judged").iterdir() if path.is_dir()] == ["packetsim"]


def test_extras_are_those_of_the_package() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {extra: {Requirement(text).name for text in described[extra]} for extra in described}
    for extra, modules in EXTRAS.items():
        assert {Requirement(package).name for package in modules.values()} <= packages[extra]
    (everything,) = map(Requirement, described["all"])
    assert everything.extras == set(EXTRAS)


def test_the_command_names_packages() -> None:
    assert install_command("rllib") == "pip install 'ray[rllib]' torch tensorboard (the extra rllib)"


def test_a_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ncc_no_such_package").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_installed("ncc_no_such_package")
    assert not is_installed("ncc_no_such_package.module")
    assert is_installed("numpy")


def test_only_what_is_asked_for_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncc.core.extras.is_installed", lambda module: module != "onnxruntime")
    require_extra("export", "exporting", "onnx")
    with pytest.raises(
        MissingExtraError, match=r"^checking needs onnxruntime, not installed here: pip install onnx onnxruntime \(the"
    ):
        require_extra("export", "checking")
