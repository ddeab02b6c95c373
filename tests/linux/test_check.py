# SPDX-License-Identifier: BSD-3-Clause
"""`ncc host check`: a line for each requirement of a run, with a remedy for each missing one."""

import subprocess
import sys
from pathlib import Path

import pytest

from ncc.envs.linux import check, objects
from ncc.envs.linux.check import Row, State, can_run, check_machine
from ncc.host.__main__ import main
from tests.linux.lab import registered
from tests.support.linux import KERNEL, needs

ORDER = [
    "processor", "kernel", "BTF", "CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW",
    "user namespace", "/run", "TUN", "SCHED_FIFO", "libbpf", "BPF objects", "helper programs", "struct_ops",
    "switch program", "pyroute2", "tc", "tbf", "clsact", "htb",
]  # fmt: skip

WITHOUT_CAPABILITIES = """
import ctypes, sys
from ncc.host.__main__ import main
header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, none) == 0
sys.exit(main(["check"]))
"""


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_every_check_has_its_line_in_order() -> None:
    rows = check_machine()
    assert [row.name for row in rows] == ORDER
    assert all(row.sentence for row in rows)
    assert can_run(rows) == all(row.state is State.THERE for row in rows if row.needed)


def test_the_exit_status_says_whether_a_run_is_possible(capsys: pytest.CaptureFixture[str]) -> None:
    possible = can_run(check_machine())
    assert main(["check"]) == (0 if possible else 1)
    printed = capsys.readouterr().out
    assert all(name.split()[0] in printed for name in ORDER)
    assert ("Runs on linux are possible here." if possible else "No run on linux is possible here") in printed


@pytest.mark.skipif(sys.platform != "linux", reason="linux: not Linux")
def test_it_works_without_any_privilege() -> None:
    command = [sys.executable, "-c", WITHOUT_CAPABILITIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stdout.replace("│", " ").split())
    assert "CAP_BPF no yes it is needed to load programs: run as root (sudo)" in said
    assert "CAP_NET_RAW no no it is needed to wake flows that wait for their receivers" in said
    assert "struct_ops not tried yes" in said
    assert "the first thing missing is" in said


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "BTF", tmp_path / "none")
    monkeypatch.setattr("platform.release", lambda: "6.9.12")
    monkeypatch.setattr(check, "capabilities", lambda: 0)
    monkeypatch.setattr(objects, "bpf_objects", dict)
    monkeypatch.setattr(check, "is_installed", lambda _: False)
    rows = by_name(check_machine())
    assert not can_run(list(rows.values()))
    assert "boot Linux 6.10 or later" in rows["kernel"].sentence
    assert "CONFIG_DEBUG_INFO_BTF" in rows["BTF"].sentence
    assert "install clang and libbpf-dev" in rows["BPF objects"].sentence
    assert "pip install pyroute2 (the extra linux)" in rows["pyroute2"].sentence
    untried = rows["struct_ops"]
    assert untried.state is State.UNTRIED
    assert untried.sentence.startswith("it can be tried only with: kernel, BTF, CAP_BPF, CAP_PERFMON")
    assert rows["switch program"].sentence.startswith("it can be tried only with: kernel, BTF, CAP_BPF")
    assert rows["tbf"].sentence == "it can be tried only with: CAP_NET_ADMIN, CAP_SYS_ADMIN"


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
    assert rows["struct_ops"].state is State.UNTRIED


@needs(*KERNEL)
def test_a_controller_that_another_process_registered_is_there() -> None:
    with registered("newreno", timeout_s=1.0):
        row = by_name(check_machine())["struct_ops"]
    assert row.state is State.THERE


def test_optional_things_do_not_stop_a_run() -> None:
    there = [Row("a", State.THERE, True, "."), Row("b", State.MISSING, False, "."), Row("c", State.UNTRIED, False, ".")]
    assert can_run(there)
    assert not can_run([*there, Row("d", State.UNTRIED, True, ".")])
