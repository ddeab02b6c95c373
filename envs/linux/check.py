# SPDX-License-Identifier: BSD-3-Clause
"""Requirements of the Linux datapath, and a check that this machine meets them.

The check leaves nothing behind: every trial runs in its own network namespace or is undone at once.
"""

import os
import platform
import re
import shutil
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ncc.core.errors import NccError
from ncc.envs.linux import device, netlink, objects
from ncc.envs.linux.extension import bpf, open_object
from ncc.envs.linux.namespaces import in_new
from ncc.envs.linux.netlink import Route, attribute

KERNEL_LEAST = (6, 10)
"""Oldest usable kernel: `cong_control` gets the ACK as of 6.10; registrations end with their process as of 6.4."""
BTF = Path("/sys/kernel/btf/vmlinux")
PROCESSOR = "x86_64"
"""Processor that our programs for the kernel are built for: they read its registers."""
TUN = Path("/dev/net/tun")
RUN = Path("/run")
UID_MAP = Path("/proc/self/uid_map")
EVERY_UID = ["0", "0", "4294967295"]
"""Content of `UID_MAP` in the machine's initial user namespace."""
CAPABILITIES = {
    "CAP_BPF": (39, "to load programs"),
    "CAP_PERFMON": (38, "to let programs read the kernel's structures"),
    "CAP_NET_ADMIN": (12, "to set up devices and queues, and to attach programs to them"),
    "CAP_SYS_ADMIN": (21, "to make network namespaces"),
    "CAP_NET_RAW": (13, "to wake flows that wait for their receivers"),
}
"""Number and purpose of each capability."""
LOOPBACK = 1
"""Index of the loopback device."""
_RATE = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 10**6)
"""struct tc_ratespec of 1 MB/s on Ethernet."""
_TBF = attribute(netlink.OPTIONS, attribute(1, _RATE + bytes(12) + struct.pack("=3I", 10**5, 10**5, 0)))


class Row(NamedTuple):
    """Outcome of a check."""

    name: str
    there: bool | None
    """None: it was not tried, because something that is needed for the trial is missing."""
    needed: bool
    """True if no run is possible without it."""
    sentence: str
    """Purpose of the requirement if it is met, otherwise the problem and a remedy."""


Requirement = tuple[str, str, Callable[[], bool], str]
"""Name, purpose, a check (it may also raise `NccError` or `OSError`), and advice for a machine where it is missing."""


def can_run(rows: list[Row]) -> bool:
    """Return True if all requirements of a run are met."""
    return all(row.there for row in rows if row.needed)


def check_machine() -> list[Row]:
    """Check all requirements; any user may call this."""
    rows = [_row(one, needed=True) for one in NEEDED]
    possible = can_run(rows)
    rows += [
        _row(one, needed=True) if possible else Row(one[0], None, True, "it can be tried where all above is there")
        for one in TRIED
    ]
    return [*rows, *(_row(one, needed=False) for one in OPTIONAL)]


def _row(requirement: Requirement, *, needed: bool) -> Row:
    name, purpose, there, remedy = requirement
    met, why = False, ""
    try:
        met = there()
    except (NccError, OSError) as error:
        why = f" ({str(error).removesuffix('.')})"
    return Row(name, met, needed, purpose if met else f"it is needed {purpose}: {remedy}{why}")


def capabilities() -> int:
    """Bit mask of this process's effective capabilities; 0 on other systems than Linux."""
    try:
        return int(re.findall(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)[0], 16)
    except (OSError, IndexError):  # not Linux
        return 0


def _kernel() -> bool:
    numbers = re.match(r"Linux (\d+)\.(\d+)", f"{platform.system()} {platform.release()}")
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= KERNEL_LEAST


def _realtime() -> bool:
    before = (os.sched_getscheduler(0), os.sched_getparam(0))
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.sched_setscheduler(0, *before)
    return True


def _tun() -> bool:
    os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    return True


def _loads(path: Path, registers: str = "") -> bool:
    opened = open_object(path)
    try:
        if registers:
            opened.register(registers)
    except bpf().RegisteredError:  # another process has it
        return True
    finally:
        opened.close()
    return True


def _takes(request: bytes) -> bool:
    """Set up a queue on loopback in a temporary namespace; raise `OSError` if the kernel refuses."""

    def attempt() -> bool:
        with closing(Route()) as route:
            route.send(request)
        return True

    return in_new(attempt)


def _capable(name: str) -> Requirement:
    bit, purpose = CAPABILITIES[name]
    return name, purpose, lambda: bool(capabilities() >> bit & 1), "run as root (sudo)"


def _machines_own_root() -> bool:
    return not UID_MAP.exists() or UID_MAP.read_text().split() == EVERY_UID


_REBUILD = "then run `make build` or reinstall ncc"
_BUILT_FOR = f"use a machine with {PROCESSOR}, for which they are built"
NEEDED: tuple[Requirement, ...] = (
    ("processor", "to run our programs for the kernel", lambda: platform.machine() == PROCESSOR, _BUILT_FOR),
    (
        "kernel",
        "to run congestion controls of ours",
        _kernel,
        f"boot Linux {'.'.join(map(str, KERNEL_LEAST))} or later",
    ),
    (
        "BTF",
        "to tell programs the kernel's types",
        lambda: os.access(BTF, os.R_OK),
        "boot a kernel built with CONFIG_DEBUG_INFO_BTF",
    ),
    *map(_capable, ("CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_ADMIN")),
    (
        "user namespace",
        "to have the rights of the machine's own root",
        _machines_own_root,
        "run outside of this user namespace (a rootless container?)",
    ),
    (
        "/run",  # asks the kernel and writes nothing, because other processes may be reading this folder
        "to hold the machine's lock and the names of namespaces",
        lambda: os.access(RUN, os.W_OK | os.X_OK),
        f"make {RUN} writable, which takes root (sudo)",
    ),
    ("ip and tc", "to make the network", lambda: all(map(shutil.which, ("ip", "tc"))), "install iproute2"),
    ("libbpf", "to load programs", lambda: bpf().version()[0] >= 1, "install 1.0 or later (package libbpf1)"),
    (
        "BPF objects",
        "to run in the kernel",
        lambda: bool(objects.controllers()),
        f"install clang and libbpf-dev, {_REBUILD}",
    ),
    (
        "helper programs",
        "to make traffic and delays",
        lambda: all(map(objects.helper, ("traffic", "delay"))),
        f"install gcc, {_REBUILD}",
    ),
)
"""Requirements of every run that any user can check."""
TRIED: tuple[Requirement, ...] = (
    (
        "struct_ops",
        "to register congestion controls",
        lambda: _loads(objects.controller_object("newreno"), "shim"),
        "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
    ),
    (
        "switch program",
        "to mark, drop and count at ports",
        lambda: _loads(objects.require_built()["switch"]),
        "boot a kernel with CONFIG_NET_CLS_BPF",
    ),
    (
        "tbf",
        "to send at a line's rate",
        lambda: _takes(device.qdisc(LOOPBACK, "tbf", options=_TBF)),
        "boot a kernel with CONFIG_NET_SCH_TBF",
    ),
    (
        "clsact",
        "to run programs at ports",
        lambda: _takes(device.clsact(LOOPBACK)),
        "boot a kernel with CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_ACT",
    ),
)
"""Requirements of every run that can be checked only by trying them, once all of `NEEDED` are met."""
OPTIONAL: tuple[Requirement, ...] = (
    (
        "htb",
        "to hold limits and orders in hosts",
        lambda: _takes(device.htb(LOOPBACK, device.ROOT, device.LIMIT)),
        "boot a kernel with CONFIG_NET_SCH_HTB",
    ),
    _capable("CAP_NET_RAW"),
    ("TUN", "to give links a delay", _tun, "modprobe tun, or let a container have /dev/net/tun"),
    (
        "SCHED_FIFO",
        "to miss no period beside other work",
        _realtime,
        "run as root (CAP_SYS_NICE), outside control groups with cpu.rt_runtime_us 0",
    ),
)
