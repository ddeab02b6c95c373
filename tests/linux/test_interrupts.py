# SPDX-License-Identifier: BSD-3-Clause
"""An interrupted evaluation leaves nothing on the machine."""

import json
import os
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import machine
from ncc.envs.linux.namespaces import create
from ncc.host.__main__ import main
from tests.linux.patience import exclusively, patiently
from tests.linux.spaces import of_killed
from tests.mains.commands import command
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

NETNS = Path("/run/netns")


def namespaces(of: int) -> list[str]:
    """Namespaces of the runs of a process and of its children."""
    children = Path(f"/proc/{of}/task/{of}/children")
    pids = {str(of), *(children.read_text().split() if children.exists() else ())}
    return [name for name in _all() if name.split("-")[1] in pids]


def _all() -> list[str]:
    return [entry.name for entry in NETNS.glob("ncc-*")]


def sending(of: list[str]) -> bool:
    """Return True if a host of these namespaces has sent packets of flows."""
    for name in of:
        done = subprocess.run(["ip", "-n", name, "-s", "-j", "link"], capture_output=True, text=True, check=False)
        links = json.loads(done.stdout) if done.returncode == 0 else []
        if any(link["stats64"]["tx"]["bytes"] > 100_000 for link in links):
            return True
    return False


@needs(*TRAFFIC)
@pytest.mark.parametrize("when", ["building", "sending"])
def test_ctrl_c_leaves_nothing_behind(when: str, tmp_path: Path) -> None:
    assert patiently(lambda: interrupted(when, tmp_path))


def interrupted(when: str, folder: Path) -> bool:
    """Return True if an interrupted evaluation leaves nothing; raises `DatapathError` if another run is under way."""
    asked = command("evaluate", "datapath=linux", "scenario=lab_incast", "controller=dctcp", "duration_s=20", "seeds=1")
    said = folder / "said"
    with said.open("w") as file:
        run = subprocess.Popen([*asked, "out=judged"], cwd=folder, stdout=file, stderr=file, process_group=0)
    try:
        mine: list[str] = []

        def begun() -> bool:
            mine[:] = namespaces(run.pid)
            return run.poll() is not None or (bool(mine) and (when == "building" or sending(mine)))

        assert eventually(begun)
        if run.poll() is not None:
            raise DatapathError(said.read_text())
        workers = {name.split("-")[1] for name in mine}
        assert workers
        os.killpg(run.pid, signal.SIGINT)
        assert eventually(lambda: not _of(workers))
        assert run.wait(PATIENCE_S) != 0
        return not _of(workers)  # nor made any more
    finally:
        run.kill()
        run.wait()


def _of(workers: set[str]) -> list[str]:
    return [name for name in _all() if name.split("-")[1] in workers]


@needs(*TRAFFIC)
def test_what_dead_runs_left_can_be_swept(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    left = of_killed("swept")
    with exclusively():  # or a rack that is built meanwhile sweeps, too
        create(left)
        assert main(["sweep"]) == 1
        assert "Another run on linux has this machine" in capsys.readouterr().err
        monkeypatch.setattr(machine, "taken", nullcontext)
        assert main(["sweep"]) == 0
        assert left in capsys.readouterr().out
        assert left not in _all()
        assert main(["sweep"]) == 0
        assert capsys.readouterr().out == "No run left anything behind.\n"
