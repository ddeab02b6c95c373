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
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ncc.core.errors import NccError
from ncc.core.extras import install_command, is_installed
from ncc.envs.linux import device, netlink, objects
from ncc.envs.linux.enter import in_namespace
from ncc.envs.linux.extension import bpf, open_object
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
HELPERS = ("traffic", "delay")
"""Programs in programs/."""
LOOPBACK = 1
"""Index of the loopback device."""
_RATE = struct.pack("=BBHhHI", 0, 1, 0, 0, 0, 10**6)
"""struct tc_ratespec of 1 MB/s on Ethernet."""
QUEUES = {
    "tbf": device.qdisc(
        LOOPBACK,
        "tbf",
        options=attribute(netlink.OPTIONS, attribute(1, _RATE + bytes(12) + struct.pack("=3I", 10**5, 10**5, 0))),
    ),
    "clsact": device.qdisc(LOOPBACK, "clsact", handle=device.CLSACT, parent=device.CLSACT_PARENT),
    "htb": device.htb(LOOPBACK, device.ROOT, device.LIMIT),
}
"""Request that sets up each kind of queue that the datapath uses."""


class State(Enum):
    """Outcome of a check."""

    THERE = "yes"
    MISSING = "no"
    UNTRIED = "not tried"


class Requirement(NamedTuple):
    """One thing that the datapath needs."""

    name: str
    purpose: str
    there: Callable[[], bool]
    """Function that returns True if it is there; it may also raise `NccError` or `OSError`."""
    remedy: str
    """Advice for a machine where it is missing."""
    needed: bool = True
    """True if no run is possible without it."""
    after: tuple[str, ...] = ()
    """Names of the requirements that must be met before this one can be tried."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    state: State
    needed: bool
    sentence: str
    """Purpose of the requirement if it is met, otherwise the problem and a remedy."""


def can_run(rows: list[Row]) -> bool:
    """Return True if all requirements of a run are met."""
    return all(row.state is State.THERE for row in rows if row.needed)


def check_machine() -> list[Row]:
    """Check all requirements; any user may call this."""
    rows: dict[str, Row] = {}
    for name, purpose, there, remedy, needed, after in REQUIREMENTS:
        state, sentence, why = State.THERE, purpose, ""
        if lacking := [earlier for earlier in after if rows[earlier].state is not State.THERE]:
            state, sentence = State.UNTRIED, f"it can be tried only with: {', '.join(lacking)}"
        else:
            try:
                met = there()
            except (NccError, OSError) as error:
                met, why = False, f" ({str(error).removesuffix('.')})"
            if not met:
                state, sentence = State.MISSING, f"it is needed {purpose}: {remedy}{why}"
        rows[name] = Row(name, state, needed, sentence)
    return list(rows.values())


def capabilities() -> int:
    """Bit mask of this process's effective capabilities; 0 on other systems than Linux."""
    try:
        return int(re.findall(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)[0], 16)
    except (OSError, IndexError):  # not Linux
        return 0


def _capability(bit: int) -> bool:
    return bool(capabilities() >> bit & 1)


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


def _loads(path: Callable[[], Path], registers: str = "") -> bool:
    opened = open_object(path())
    try:
        if registers:
            opened.register(registers)
    except bpf().RegisteredError:  # another process has it
        return True
    finally:
        opened.close()
    return True


def has_queue(kind: str) -> bool:
    """Set up a queue of `QUEUES` on loopback in a temporary namespace; raise `OSError` if the kernel refuses."""

    def attempt() -> None:
        with closing(Route()) as route:
            route.send(QUEUES[kind])

    in_namespace(None, attempt)
    return True


_REBUILD = "then run `make build` or reinstall ncc"
_LOADING = ("processor", "kernel", "BTF", "CAP_BPF", "CAP_PERFMON", "user namespace", "libbpf", "BPF objects")
_IN_NAMESPACE = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")

REQUIREMENTS = (
    Requirement(
        "processor",
        "to run our programs for the kernel",
        lambda: platform.machine() == PROCESSOR,
        f"use a machine with {PROCESSOR}, for which they are built",
    ),
    Requirement(
        "kernel",
        "to run congestion controls of ours",
        _kernel,
        f"boot Linux {'.'.join(map(str, KERNEL_LEAST))} or later",
    ),
    Requirement(
        "BTF",
        "to tell programs the kernel's types",
        lambda: os.access(BTF, os.R_OK),
        "boot a kernel built with CONFIG_DEBUG_INFO_BTF",
    ),
    *(
        Requirement(name, purpose, partial(_capability, bit), "run as root (sudo)", needed=name != "CAP_NET_RAW")
        for name, (bit, purpose) in CAPABILITIES.items()
    ),
    Requirement(
        "user namespace",
        "to have the rights of the machine's own root",
        lambda: not UID_MAP.exists() or UID_MAP.read_text().split() == EVERY_UID,
        "run outside of this user namespace (a rootless container?)",
    ),
    Requirement(
        "/run",  # asks the kernel and writes nothing, because other processes may be reading this folder
        "to hold the machine's lock and the names of namespaces",
        lambda: os.access(RUN, os.W_OK | os.X_OK),
        f"make {RUN} writable, which takes root (sudo)",
    ),
    Requirement(
        "TUN", "to give links a delay", _tun, "modprobe tun, or let a container have /dev/net/tun", needed=False
    ),
    Requirement(
        "SCHED_FIFO",
        "to miss no period beside other work",
        _realtime,
        "run as root (CAP_SYS_NICE), outside control groups with cpu.rt_runtime_us 0",
        needed=False,
    ),
    Requirement(
        "libbpf", "to load programs", lambda: bpf().version()[0] >= 1, "install 1.0 or later (package libbpf1)"
    ),
    Requirement(
        "BPF objects",
        "to run in the kernel",
        lambda: bool(objects.controllers()),
        f"install clang and libbpf-dev, {_REBUILD}",
    ),
    Requirement(
        "helper programs",
        "to make traffic and delays",
        lambda: all(objects.helper(name) for name in HELPERS),
        f"install gcc, {_REBUILD}",
    ),
    Requirement(
        "struct_ops",
        "to register congestion controls",
        lambda: _loads(lambda: objects.controller_object("newreno"), "shim"),
        "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
        after=_LOADING,
    ),
    Requirement(
        "switch program",
        "to mark, drop and count at ports",
        lambda: _loads(lambda: objects.require_built()["switch"]),
        "boot a kernel with CONFIG_NET_CLS_BPF",
        after=(*_LOADING, "CAP_NET_ADMIN"),
    ),
    Requirement("pyroute2", "to make the network", lambda: is_installed("pyroute2"), f"{install_command('linux')}"),
    Requirement("tc", "to set up ports", lambda: shutil.which("tc") is not None, "install it (package iproute2)"),
    *(
        Requirement(
            kind, purpose, partial(has_queue, kind), f"boot a kernel with {option}", needed=needed, after=_IN_NAMESPACE
        )
        for kind, purpose, option, needed in (
            ("tbf", "to send at a line's rate", "CONFIG_NET_SCH_TBF", True),
            ("clsact", "to run programs at ports", "CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_ACT", True),
            ("htb", "to hold limits and orders in hosts", "CONFIG_NET_SCH_HTB", False),
        )
    ),
)
"""All requirements, in an order in which each needs only earlier ones."""
