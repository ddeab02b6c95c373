# SPDX-License-Identifier: BSD-3-Clause
"""`ncc host check`: a line for each requirement of a run, with a remedy for each missing one."""

import subprocess
import sys
from pathlib import Path

import pytest

from ncc.envs.linux import check, objects
from ncc.envs.linux.check import Row, can_run, check_machine
from ncc.host.__main__ import main
from tests.linux.lab import registered
from tests.support.linux import KERNEL, needs

WITHOUT_CAPABILITIES = """
import ctypes, sys
from ncc.host.__main__ import main
header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, none) == 0
sys.exit(main(["check"]))
"""


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_the_exit_status_says_whether_a_run_is_possible(capsys: pytest.CaptureFixture[str]) -> None:
    rows = check_machine()
    possible = can_run(rows)
    assert possible == all(row.there for row in rows if row.needed)
    assert main(["check"]) == (0 if possible else 1)
    printed = capsys.readouterr().out
    assert all(row.sentence and f"\n{row.name} " in printed for row in rows)
    assert ("Runs on linux are possible here." if possible else "No run on linux is possible here") in printed


@pytest.mark.skipif(sys.platform != "linux", reason="linux: not Linux")
def test_it_works_without_any_privilege() -> None:
    command = [sys.executable, "-c", WITHOUT_CAPABILITIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.split())
    assert "CAP_BPF no yes it is needed to load programs: run as root (sudo)" in said
    assert "CAP_NET_RAW no no it is needed to wake flows that wait for their receivers" in said
    assert "struct_ops not tried yes" in said
    assert "the first thing missing is" in said


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "BTF", tmp_path / "none")
    monkeypatch.setattr("platform.release", lambda: "6.9.12")
    monkeypatch.setattr(check, "capabilities", lambda: 0)
    monkeypatch.setattr(objects, "bpf_objects", dict)
    monkeypatch.setattr("shutil.which", lambda _: None)
    rows = by_name(check_machine())
    assert not can_run(list(rows.values()))
    assert "boot Linux 6.10 or later" in rows["kernel"].sentence
    assert "CONFIG_DEBUG_INFO_BTF" in rows["BTF"].sentence
    assert "install clang and libbpf-dev" in rows["BPF objects"].sentence
    assert "install iproute2" in rows["ip and tc"].sentence
    for untried in ("struct_ops", "switch program", "tbf"):
        assert rows[untried][1:] == (None, True, "it can be tried where all above is there")


def test_containers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uid_map").write_text("         0     100000      65536\n")
    monkeypatch.setattr(check, "UID_MAP", tmp_path / "uid_map")
    monkeypatch.setattr(check, "TUN", tmp_path / "none")
    monkeypatch.setattr(check, "RUN", tmp_path / "none")
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    rows = by_name(check_machine())
    assert "rootless container" in rows["user namespace"].sentence
    assert "modprobe tun, or let a container have /dev/net/tun ([Errno 2] No such file" in rows["TUN"].sentence
    assert not rows["TUN"].needed
    assert "writable, which takes root" in rows["/run"].sentence
    assert "use a machine with x86_64" in rows["processor"].sentence
    assert rows["struct_ops"].there is None


@needs(*KERNEL)
def test_a_controller_that_another_process_registered_is_there() -> None:
    with registered("newreno", timeout_s=1.0):
        row = by_name(check_machine())["struct_ops"]
    assert row.there


def test_optional_things_do_not_stop_a_run() -> None:
    there = [Row("a", True, True, "."), Row("b", False, False, ".")]
    assert can_run(there)
    assert not can_run([*there, Row("d", None, True, ".")])
