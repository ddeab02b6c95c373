# SPDX-License-Identifier: BSD-3-Clause
"""`ncc host check`: a line for everything that a run needs, and for what is missing what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.envs.linux import check, objects
from ncc.envs.linux.callbacks import Callbacks, count_callbacks
from ncc.envs.linux.check import Row, State, can_run, check_machine
from ncc.envs.linux.cost import measure
from ncc.envs.linux.libbpf import BPF_F_LINK, Object, libbpf
from ncc.host.__main__ import main
from tests.linux.patience import exclusively, patiently
from tests.support.linux import KERNEL, TRAFFIC, needs

ORDER = [
    "processor", "kernel", "BTF", "CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "user namespace", "/run",
    "TUN", "SCHED_FIFO", "libbpf", "BPF objects", "helper programs", "struct_ops", "switch program", "pyroute2", "tbf",
    "clsact", "htb", "netem", "kernel's cubic", "kernel's bbr", "kernel's dctcp",
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
    assert "CAP_BPF no yes it is needed to load programs, which takes root (sudo)" in said
    assert "struct_ops not tried yes" in said
    assert "the first thing missing is" in said


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(check, "BTF", tmp_path / "none")
    monkeypatch.setattr(check, "KERNEL_LEAST", (99, 0))
    monkeypatch.setattr(check, "capabilities", lambda: 0)
    monkeypatch.setattr(objects, "bpf_objects", dict)
    monkeypatch.setattr(check, "is_installed", lambda _: False)
    rows = by_name(check_machine())
    assert not can_run(list(rows.values()))
    assert "boot Linux 99.0 or later" in rows["kernel"].sentence
    assert "CONFIG_DEBUG_INFO_BTF" in rows["BTF"].sentence
    assert "install clang and libbpf-dev" in rows["BPF objects"].sentence
    assert "pip install 'ncc[linux]'" in rows["pyroute2"].sentence
    untried = rows["struct_ops"]
    assert untried.state is State.UNTRIED
    assert untried.sentence.startswith("controllers can be registered only with: kernel, BTF, CAP_BPF, CAP_PERFMON")
    assert rows["switch program"].sentence.startswith("it can be loaded only with: kernel, BTF, CAP_BPF")
    assert rows["tbf"].sentence == "queues can be tried only with: CAP_NET_ADMIN, CAP_SYS_ADMIN, pyroute2"


def test_containers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uid_map").write_text("         0     100000      65536\n")
    monkeypatch.setattr(check, "UID_MAP", tmp_path / "uid_map")
    monkeypatch.setattr(check, "TUN", tmp_path / "none")
    monkeypatch.setattr(check, "RUN", tmp_path / "none")
    monkeypatch.setattr(check, "PROCESSORS", ("pdp11",))
    rows = by_name(check_machine())
    assert "rootless container" in rows["user namespace"].sentence
    assert "modprobe tun" in rows["TUN"].sentence
    assert not rows["TUN"].needed
    assert "writable, which takes root" in rows["/run"].sentence
    assert "are built for pdp11" in rows["processor"].sentence
    assert rows["struct_ops"].state is State.UNTRIED


@needs(*KERNEL)
def test_a_controller_that_another_process_registered_is_there() -> None:
    with Object(objects.bpf_object("callbacks")) as loaded:
        loaded.map("callbacks").add_flags(BPF_F_LINK)
        loaded.load()
        patiently(lambda: loaded.register("callbacks"))
        row = by_name(check_machine())["struct_ops"]
        assert row.state is State.THERE
        assert row.sentence == "another process has a controller registered"


@needs("objects")
def test_hints_at_limits_that_are_not_there_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    library = libbpf()
    hint = "libbpf: permission error while running as root; try raising 'ulimit -l'? current value: 8 MB"
    monkeypatch.setattr(library, "said", [hint, "libbpf: prog 'a': BPF program load failed"])
    with Object(objects.bpf_object("callbacks")) as opened:
        library.said[:] = [hint, "libbpf: prog 'a': BPF program load failed"]
        assert opened._complaint() == " libbpf: libbpf: prog 'a': BPF program load failed"


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise DatapathError("libbpf.so.1 cannot be used: install libbpf 1.0 or later (package libbpf1).")

    monkeypatch.setattr(check, "libbpf", fail)
    assert "install libbpf 1.0 or later" in by_name(check_machine())["libbpf"].sentence


def test_optional_things_do_not_stop_a_run() -> None:
    there = [Row("a", State.THERE, True, "."), Row("b", State.MISSING, False, "."), Row("c", State.UNTRIED, False, ".")]
    assert can_run(there)
    assert not can_run([*there, Row("d", State.UNTRIED, True, ".")])


@needs(*TRAFFIC)
def test_skipped_callbacks_are_counted() -> None:
    counted = patiently(lambda: count_callbacks(1.0))
    assert counted.acks > 1000
    assert counted.right > 50
    assert 0 <= counted.run - counted.right - counted.garbled <= 4  # of each flow the last has no ACK after it
    assert counted.wrong < 0.1 * counted.right  # else nothing here could work
    assert f"{counted.wrong} arrived as something else" in counted.sentence()


@needs(*TRAFFIC)
def test_what_an_ack_costs_is_measured() -> None:
    if "cubic" not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split():
        pytest.skip("linux: the kernel has no CUBIC of its own")
    costs, counting_ns = patiently(lambda: measure(("dctcp", "newreno"), 0.5))
    assert [cost.name for cost in costs] == ["kernel's cubic", "dctcp", "newreno"]
    assert all(cost.acks > 300 for cost in costs)
    assert 0 < counting_ns < 10_000
    assert all(0 <= cost.ns_per_ack < 100_000 for cost in costs)


@needs(*TRAFFIC)
def test_names_are_looked_at_before_the_machine_is_taken() -> None:
    with exclusively(), pytest.raises(UnknownNameError, match="Did you mean 'dctcp'"):
        measure(("dtcp",), 0.5)


@needs(*TRAFFIC)
def test_a_trial_ends() -> None:
    with pytest.raises(ConfigError, match="lasts from 0 to 60 s, got 61"):
        count_callbacks(61)


def test_the_sentence_about_callbacks() -> None:
    counted = Callbacks(acks=900, run=98, right=98, skipped=2, garbled=0, last_wrong=7, recursion_misses=0)
    assert counted.sentence() == (
        "Of 100 answers of a callback 2 arrived as something else (2 times it had not run, 0 times it had; the last "
        "was 7), in 900 ACKs."
    )
