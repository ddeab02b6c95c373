# SPDX-License-Identifier: BSD-3-Clause
"""Requirements of tests of the Linux datapath. A test whose requirement is missing skips by name, and is counted."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ncc.envs.linux
from ncc.envs.linux import machine

CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 12, 21, 38, 39


def objects_folder() -> Path | None:
    """Folder in which the build left programs, if it did."""
    found = [path for path in (Path(entry) / "objects" for entry in ncc.envs.linux.__path__) if path.is_dir()]
    return found[0] if found else None


def _capable(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    return bool(effective >> number & 1)


def _objects() -> bool:
    folder = objects_folder()
    return folder is not None and any(folder.glob("shim_*.bpf.o"))


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
"""Beginning of a command that a user without rights runs."""


def _nobody_may(*command: str) -> bool:
    return not subprocess.run([*NOBODY, *command], capture_output=True, check=False).returncode


CLIENTS = {
    "iperf3": "iperf3",
    "nginx": "nginx-light",
    "redis-server": "redis-server",
    "dnsmasq": "dnsmasq-base",
    "sshd": "openssh-server",
}
"""Programs of third parties, and the packages that bring them."""


def _there(program: str) -> bool:
    return shutil.which(program) is not None


NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "clang": ("clang is not installed", lambda: shutil.which("clang") is not None),
    "clang++": ("clang++ is not installed (package clang)", lambda: shutil.which("clang++") is not None),
    "objects": ("the BPF objects were not built (clang and libbpf-dev, then make build)", _objects),
    "btf": ("the kernel has no BTF (/sys/kernel/btf/vmlinux)", Path("/sys/kernel/btf/vmlinux").exists),
    "root": ("not root", lambda: os.geteuid() == 0),
    "bpf": ("CAP_BPF and CAP_PERFMON are missing", lambda: _capable(CAP_BPF) and _capable(CAP_PERFMON)),
    "net": ("CAP_NET_ADMIN and CAP_SYS_ADMIN are missing", lambda: _capable(CAP_NET_ADMIN) and _capable(CAP_SYS_ADMIN)),
    "ip": ("ip and ss are not installed (package iproute2)", lambda: all(map(shutil.which, ("ip", "ss")))),
    "em++": ("em++ is not installed (package emscripten)", lambda: shutil.which("em++") is not None),
    "chromium": ("chromium is not installed (package chromium)", lambda: shutil.which("chromium") is not None),
    "setpriv": ("setpriv is not installed (package util-linux)", lambda: shutil.which("setpriv") is not None),
    **{
        program: (f"{program} is not installed (package {package})", partial(_there, program))
        for program, package in CLIENTS.items()
    },
    "everybody's python": (
        "other users may not run this interpreter",
        lambda: shutil.which("setpriv") is not None and _nobody_may(sys.executable, "-c", "import ncc"),
    ),
    "users' namespaces": (
        "users may not make network namespaces here",
        lambda: (
            shutil.which("setpriv") is not None and _nobody_may("unshare", "--user", "--map-root-user", "--net", "true")
        ),
    ),
}
"""Requirements by name: the reason to skip, and True if it is there."""

KERNEL = ("btf", "bpf", "objects")
"""Programs can be loaded."""
TRAFFIC = ("root", *KERNEL, "net", "ip", "setpriv")
"""And real traffic sent through namespaces."""


BROUGHT = {"clang", "clang++", "objects", "ip", "em++", "chromium"}
"""Tools that `make` does without: clang, libbpf-dev, iproute2, emscripten and chromium."""


def needs(*what: str) -> pytest.MarkDecorator:
    """Mark for a test (or `pytestmark`) that runs only where everything named is there.

    Names are keys of `NEEDS`; `needs(*TRAFFIC)` for all of a real run.
    """
    return pytest.mark.needs(*what)


def mark_needs(item: pytest.Item) -> None:
    """Skip a test that lacks something by name, and mark it `clang` if it needs any of `BROUGHT`."""
    what = {name for mark in item.iter_markers("needs") for name in mark.args}
    if missing := [reason for name, (reason, there) in NEEDS.items() if name in what and not there()]:
        item.add_marker(pytest.mark.skip(reason=f"linux: {'; '.join(missing)}"))
    if what & BROUGHT:
        item.add_marker(pytest.mark.clang)


BUSY_FRAC = 0.3
"""Share of all cores in use, above which the kernel's timing cannot be measured."""
LATE_S = 250e-6
"""Lateness of one wake-up in ten, above which the kernel's timing cannot be measured; 100 us on a quiet machine."""


def unfit() -> str | None:
    """Reason why a test marked `timing` cannot measure now, if there is one."""
    busy_frac, late_s = machine.busy_frac(), wake_up_late_s()
    if busy_frac < BUSY_FRAC and late_s < LATE_S:
        return None
    return f"linux: {busy_frac:.0%} of the cores are busy and sleepers wake {late_s * 1e6:.0f} us late"


def wake_up_late_s(sleeps: int = 300, sleep_s: float = 200e-6) -> float:
    """Lateness of a sleeping thread's wake-up, exceeded by one in ten of `sleeps`."""
    late = np.empty(sleeps)
    for i in range(sleeps):
        began = time.perf_counter()
        time.sleep(sleep_s)
        late[i] = time.perf_counter() - began - sleep_s
    return float(np.quantile(late, 0.9))
