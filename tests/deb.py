# SPDX-License-Identifier: BSD-3-Clause
"""The Debian package, built from a wheel and installed in a copy of this system: what it has, starts, stops and leaves.

``python -m tests.deb dist/neighbour_cc-*.whl``. The copy is an overlay in namespaces of its own. A program in the place
of systemctl notes what it is told.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.house.files import ROOT

BUILD = ROOT / "ncc/host/deb.sh"
HOST_PYTHON = "/usr/bin/python{}.{}".format(*sys.version_info[:2])
EXAMPLE, UNIT = "etc/ncc/host.conf.example", "usr/lib/systemd/system/ncc-host.service"
HIDING = "etc/systemd/system/ncc-host.service"
REFUSES = "run/refuses"
"""If this file is there, the unit does not start."""
SYSTEMCTL = f'#!/bin/sh\necho "$*" >>/told\n[ "$1" != try-restart ] || [ ! -e /{REFUSES} ]\n'
REMOVED = """
import subprocess, sys
from ncc.host.restore import alone
with alone():
    sys.exit(subprocess.run(["dpkg", "--remove", "ncc"]).returncode)
"""
"""Removal while an agent has changed settings."""
MOST_MB = 120
"""Installed. torch alone has more."""
ELSEWHERE = ("var/", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/sub", "etc/.pwd.lock",
             "told", "run/", "usr/bin/systemctl", "ncc.deb")  # fmt: skip
"""Beginnings of files of the copy that are dpkg's and useradd's, or the test's."""


def lacks() -> str:
    """Return what this machine lacks for the test; empty: nothing."""
    if shutil.which("dpkg-deb") is None:
        return "dpkg-deb is not installed (package dpkg)"
    if not Path(HOST_PYTHON).exists():
        return f"{HOST_PYTHON} is not installed (package {Path(HOST_PYTHON).name})"
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return "it takes root and unshare (package util-linux)"
    return ""


def builds_programs() -> bool:
    """Return True if a build here makes the programs for the kernel."""
    return shutil.which("clang++") is not None and Path("/usr/include/bpf/bpf_helpers.h").exists()


class Copy:
    """A copy of this system, whose changes are in memory; the caller is in a mount namespace of its own."""

    def __init__(self, at: Path) -> None:
        self._root, self._upper = at / "root", at / "upper"
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", at], check=True)
        for name in ("root", "upper", "work"):
            (at / name).mkdir()
        layers = f"lowerdir=/,upperdir={self._upper},workdir={at / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, self._root], check=True)
        for name in ("proc", "sys", "dev"):
            subprocess.run(["mount", "--rbind", f"/{name}", self._root / name], check=True)
        (self._root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        self.put("usr/bin/systemctl", SYSTEMCTL)

    def put(self, name: str, text: str) -> None:
        """Write a program."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *words: str, status: int = 0) -> str:
        """Run a command there; return what it said."""
        command = ["chroot", str(self._root), *words]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def told(self) -> list[str]:
        """Lines that systemctl was told since the last call."""
        path = self._root / "told"
        said = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return said

    def left(self) -> set[str]:
        """Files that are in the copy and not here."""
        files = (str(path.relative_to(self._upper)) for path in self._upper.rglob("*") if not path.is_dir())
        return {path for path in files if not path.startswith(ELSEWHERE)}


def check(package: Path, at: Path) -> None:
    """Install, upgrade, remove and purge the package in a copy of this system."""
    copy = Copy(at)
    shutil.copy(package, at / "root/ncc.deb")
    copy.run("dpkg", "--install", "/ncc.deb")
    assert copy.told() == ["daemon-reload", "try-restart ncc-host"], "nothing starts that did not run"
    files = copy.left()
    places = ("opt/ncc/", "usr/bin/ncc", "usr/share/doc/ncc/", EXAMPLE, UNIT)
    assert not [name for name in files if not name.startswith(places)]
    assert {"usr/bin/ncc", EXAMPLE, UNIT} <= files
    assert not [name for name in files if "site-packages/torch" in name]
    size_mb = sum((at / "root" / name).lstat().st_size for name in files) / 1e6
    assert size_mb <= MOST_MB
    assert copy.run("id", "-un", "ncc") == "ncc\n"
    assert "ExecStart=/opt/ncc/bin/python3 -I -m ncc.host run --config" in copy.run("cat", f"/{UNIT}")
    assert copy.run("ncc", "host", "unit") == copy.run("cat", f"/{UNIT}")
    assert "purpose, or what to do" in copy.run("sh", "-c", "ncc host check; test $? -le 1")
    copy.run("cp", f"/{EXAMPLE}", "/etc/ncc/host.conf")
    assert "refused: " in copy.run("ncc", "host", "check", "--config", "/etc/ncc/host.conf", status=1)
    assert "has `ncc host` only" in copy.run("ncc", "train", status=2)
    assert copy.left() == files | {"etc/ncc/host.conf"}, "a run leaves no files behind"

    copy.told()
    copy.put(REFUSES, "")
    copy.put(HIDING, "")
    said = copy.run("dpkg", "--install", "/ncc.deb")
    assert copy.told() == ["daemon-reload", "try-restart ncc-host"], (
        "an agent that runs limits until the new one starts"
    )
    assert "ncc-host did not start again" in said
    assert f"/{HIDING} hides" in said
    assert copy.run("dpkg-query", "--show", "--showformat", "${db:Status-Status}", "ncc") == "installed"
    copy.run("rm", f"/{REFUSES}", f"/{HIDING}")
    assert "Another agent has changed settings" in copy.run("/opt/ncc/bin/python3", "-c", REMOVED, status=1)
    assert copy.left() >= files, "an agent that somebody runs by hand has its files still"
    assert copy.told() == ["stop ncc-host"], "the unit starts with the machine still"
    copy.run("install", "-d", "-m", "777", "/run/ncc")
    assert "what a killed agent has changed here may stay" in copy.run("dpkg", "--remove", "ncc")
    assert copy.told() == ["stop ncc-host", "disable ncc-host", "daemon-reload"]
    assert copy.left() == {EXAMPLE, "etc/ncc/host.conf"}
    copy.run("dpkg", "--purge", "ncc")
    assert copy.left() == {"etc/ncc/host.conf"}, "what the operator wrote stays"
    sys.stdout.write(
        f"{package.name}: {size_mb:.0f} MB installed, {package.stat().st_size / 1e6:.0f} MB packed: passed\n"
    )


def main(file: Path) -> int:
    """Build the package from a wheel and check it in namespaces of its own; a package is checked in those of now.

    Returns:
        0 if all is as it should be, or if this machine lacks something.
    """
    if lacking := lacks():
        sys.stdout.write(f"deb: skipped: {lacking}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="ncc-deb-") as made:
        at = Path(made)
        if file.suffix == ".deb":
            try:
                check(file, at)
            finally:
                subprocess.run(["umount", "--recursive", at], check=False)
            return 0
        build: list[str | Path] = [BUILD, sys.executable, file.resolve(), at]
        built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
        if "has no programs for the kernel" in built.stderr and not builds_programs():
            sys.stdout.write(f"deb: skipped: {built.stderr}")
            return 0
        assert built.returncode == 0, built.stderr
        (package,) = at.iterdir()
        own = ["unshare", "--mount", "--net", "--propagation", "private"]  # removal looks at the interfaces
        return subprocess.run([*own, sys.executable, "-m", "tests.deb", package], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
