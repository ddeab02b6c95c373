# SPDX-License-Identifier: BSD-3-Clause
"""The unit: systemd accepts it, it starts the agent with its options, and it grants no more rights than needed."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncc.envs.linux import machine
from ncc.host.__main__ import main


def test_it_starts_what_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unit"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line and line[0] not in "#["]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines) - 1, "no setting is there twice, except the two steps of a reload"
    conf = ["--config", "/etc/ncc/host.conf", "--realtime"]
    assert shlex.split(found["ExecStart"]) == [sys.executable, "-I", "-m", "ncc.host", "run", *conf]
    check, signal = (line.split("=", 1)[1] for line in lines if line.startswith("ExecReload"))
    assert shlex.split(check) == [sys.executable, "-I", "-m", "ncc.host", "check", *conf]
    assert signal == "/bin/kill -HUP $MAINPID"
    assert found["ExecStopPost"].endswith("-I -m ncc.host restore"), "settings go back even after SIGKILL"
    assert found["User"] == found["RuntimeDirectory"] == "ncc"
    rights = "CAP_BPF CAP_PERFMON CAP_NET_ADMIN CAP_NET_BIND_SERVICE"
    assert found["AmbientCapabilities"] == found["CapabilityBoundingSet"] == rights
    assert (found["Nice"], found["CPUWeight"]) == ("-20", "10000")
    assert (found["LimitRTPRIO"], found["LimitMEMLOCK"]) == (str(machine.DECISIONS_PRIORITY), "infinity")
    assert Path("/run", found["RuntimeDirectory"]) == machine.FOLDER


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed (package systemd)"
)
def test_systemd_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ncc-host.service"
    main(["unit"])
    path.write_text(capsys.readouterr().out)
    ended = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert "ncc-host.service" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
