# SPDX-License-Identifier: BSD-3-Clause
"""Checks of whether this machine can run the Linux datapath, in an order in which each needs only earlier ones.

Nothing is left behind: every trial runs in a network namespace of its own or is undone at once.
"""

import ctypes
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib.metadata import version
from pathlib import Path

from ncc.core.errors import DatapathError, NccError
from ncc.core.extras import is_installed
from ncc.envs.linux import objects
from ncc.envs.linux.libbpf import BPF_F_LINK, Object, RegisteredError, libbpf

KERNEL_LEAST = (6, 10)
"""Oldest usable kernel: `cong_control` gets the ACK as of 6.10; registrations end with their process as of 6.4."""
BTF = Path("/sys/kernel/btf/vmlinux")
PROCESSORS = ("x86_64",)
"""Processors whose registers our programs for the kernel are built to read."""
TUN = Path("/dev/net/tun")
RUN = Path("/run")
"""Directory of the machine's lock and of the names of namespaces."""
UID_MAP = Path("/proc/self/uid_map")
EVERY_UID = ["0", "0", "4294967295"]
"""User map of the namespace of the machine's own root."""
CAPABILITIES = {
    "CAP_BPF": (39, "to load programs"),
    "CAP_PERFMON": (38, "to let programs read the kernel's structures"),
    "CAP_NET_ADMIN": (12, "to set up devices and queues, and to attach programs to them"),
    "CAP_SYS_ADMIN": (21, "to make network namespaces"),
}
OWN_CONTROLLERS = ("cubic", "bbr", "dctcp")
"""Congestion controls of the kernel that are references for ours."""
HELPERS = ("traffic", "delay")
"""Programs in programs/."""
LOADING = ("processor", "kernel", "BTF", "CAP_BPF", "CAP_PERFMON", "user namespace", "libbpf", "BPF objects")
"""Names of the checks that must succeed before a program can be loaded."""
CLONE_NEWNET = 0x40000000


class State(Enum):
    """Outcome of a check."""

    THERE = "yes"
    MISSING = "no"
    UNTRIED = "not tried"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    state: State
    needed: bool
    """True if no run is possible without it."""
    sentence: str
    """Sentence that says what was found, or what is missing and what to do about it."""


def can_run(rows: list[Row]) -> bool:
    """Return True if everything that a run needs is there."""
    return all(row.state is State.THERE for row in rows if row.needed)


def check_machine() -> list[Row]:
    """Run all checks, as any user; a check that this user may not try gives a row that says so."""
    rows: list[Row] = []
    for check in CHECKS:
        rows.extend(check(rows))
    return rows


def _row(name: str, fine: bool, found: str, missing: str, *, needed: bool = True) -> Row:
    return Row(name, State.THERE if fine else State.MISSING, needed, found if fine else missing)


def _lacking(rows: list[Row], *names: str) -> str:
    """List in words which of the named earlier checks did not succeed."""
    return ", ".join(row.name for row in rows if row.name in names and row.state is not State.THERE)


def _kernel(_: list[Row]) -> Iterator[Row]:
    system, release = platform.system(), platform.release()
    found = re.match(r"(\d+)\.(\d+)", release)
    fine = system == "Linux" and found is not None and (int(found[1]), int(found[2])) >= KERNEL_LEAST
    least = ".".join(map(str, KERNEL_LEAST))
    yield _row("kernel", fine, f"{system} {release}", f"this is {system} {release}: boot Linux {least} or later")


def _processor(_: list[Row]) -> Iterator[Row]:
    found, least = platform.machine(), " or ".join(PROCESSORS)
    missing = f"this is {found}, and programs for the kernel are built for {least}: use such a machine"
    yield _row("processor", found in PROCESSORS, found, missing)


def _btf(_: list[Row]) -> Iterator[Row]:
    missing = f"{BTF} does not exist: boot a kernel built with CONFIG_DEBUG_INFO_BTF"
    yield _row("BTF", BTF.exists(), "the kernel describes its types", missing)


def capabilities() -> int:
    """Bit mask of this process's effective capabilities; 0 on other systems than Linux."""
    try:
        return int(re.findall(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)[0], 16)
    except (OSError, IndexError):  # not Linux
        return 0


def _capabilities(_: list[Row]) -> Iterator[Row]:
    held = capabilities()
    for name, (bit, purpose) in CAPABILITIES.items():
        yield _row(name, bool(held >> bit & 1), purpose, f"it is needed {purpose}, which takes root (sudo)")


def _user_namespace(_: list[Row]) -> Iterator[Row]:
    try:
        own = UID_MAP.read_text().split() != EVERY_UID
    except OSError:  # a kernel without them, or not Linux
        own = False
    missing = "this process is in one (a rootless container?), whose root is not the machine's: it takes root outside"
    yield _row("user namespace", not own, "the machine's own", missing)


def _realtime(_: list[Row]) -> Iterator[Row]:
    name, missing = "SCHED_FIFO", "periods are missed on a machine with other work: it takes root (CAP_SYS_NICE),"
    missing += " outside control groups with cpu.rt_runtime_us 0"
    before = (os.sched_getscheduler(0), os.sched_getparam(0))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, *before)
    except PermissionError:
        yield Row(name, State.MISSING, False, missing)
        return
    yield Row(name, State.THERE, False, "decisions can go before everything else (CAP_SYS_NICE)")


def _libbpf(_: list[Row]) -> Iterator[Row]:
    try:
        major, minor = libbpf().version
    except DatapathError as error:
        yield Row("libbpf", State.MISSING, True, _phrase(error))
        return
    missing = f"it is version {major}.{minor}: install 1.0 or later (package libbpf1)"
    yield _row("libbpf", major >= 1, f"version {major}.{minor}", missing)


def _objects(_: list[Row]) -> Iterator[Row]:
    shims = objects.controllers()
    missing = "they were not built: install clang and libbpf-dev, then run `make build` or reinstall ncc"
    yield _row("BPF objects", bool(shims), f"controllers {', '.join(shims)}", missing)
    try:
        lacking = [name for name in HELPERS if not (objects.folder() / name).is_file()]
    except DatapathError:
        lacking = list(HELPERS)
    missing = f"{', '.join(lacking)} not built: install gcc, then run `make build` or reinstall ncc"
    yield _row("helper programs", not lacking, ", ".join(HELPERS), missing)


def _struct_ops(rows: list[Row]) -> Iterator[Row]:
    name = "struct_ops"
    if lacking := _lacking(rows, *LOADING):
        yield Row(name, State.UNTRIED, True, f"controllers can be registered only with: {lacking}")
        return
    try:
        with Object(objects.bpf_object("callbacks")) as loaded:
            loaded.map("callbacks").add_flags(BPF_F_LINK)
            loaded.load()
            loaded.register("callbacks")
    except RegisteredError:
        yield Row(name, State.THERE, True, "another process has a controller registered")
        return
    except NccError as error:
        yield Row(name, State.MISSING, True, f"no controller can be registered: {_phrase(error)}")
        return
    yield Row(name, State.THERE, True, "a controller was registered and taken back")


def _switch(rows: list[Row]) -> Iterator[Row]:
    name = "switch program"
    if lacking := _lacking(rows, *LOADING, "CAP_NET_ADMIN"):
        yield Row(name, State.UNTRIED, True, f"it can be loaded only with: {lacking}")
        return
    try:
        with Object(objects.bpf_object("switch")) as loaded:
            loaded.load()
    except NccError as error:
        yield Row(name, State.MISSING, True, f"no switch can mark and count: {_phrase(error)}")
        return
    yield Row(name, State.THERE, True, "it marks, drops and counts at ports")


def _places(_: list[Row]) -> Iterator[Row]:
    """Check access to /run by asking the kernel, without writing, for other processes may be reading there."""
    fine = os.access(RUN, os.W_OK | os.X_OK)
    missing = f"the machine's lock and namespaces' names are there: make {RUN} writable, which takes root (sudo)"
    yield _row("/run", fine, "it can be written", missing)
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
        refused = ""
    except OSError as error:
        refused = str(error.strerror)
    missing = (
        f"{TUN} cannot be opened ({refused}), which links with a delay take: modprobe tun, or let a container have it"
    )
    yield _row("TUN", not refused, "links can have a delay", missing, needed=False)


def _phrase(error: NccError) -> str:
    return str(error).removesuffix(".")


def _pyroute2(_: list[Row]) -> Iterator[Row]:
    fine = is_installed("pyroute2")
    found = f"version {version('pyroute2')}" if fine else ""
    yield _row("pyroute2", fine, found, "it sets up networks: pip install 'ncc[linux]'")


_QUEUES: dict[str, tuple[bool, dict[str, object], str]] = {
    "tbf": (True, {"rate": 10**6, "burst": 10**4, "limit": 10**5}, "CONFIG_NET_SCH_TBF"),
    "clsact": (True, {}, "CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_ACT"),
    "htb": (False, {}, "CONFIG_NET_SCH_HTB"),
    "netem": (False, {}, "CONFIG_NET_SCH_NETEM; delays do without"),
}
"""Queueing disciplines: needed by a run or not, arguments of pyroute2's `tc`, option of the kernel's build."""


def _queues(rows: list[Row]) -> Iterator[Row]:
    if lacking := _lacking(rows, "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "pyroute2"):
        for name, (needed, _, _) in _QUEUES.items():
            yield Row(name, State.UNTRIED, needed, f"queues can be tried only with: {lacking}")
        return
    for name, (needed, arguments, option) in _QUEUES.items():
        try:
            refused = in_own_namespace(partial(_try_queue, name, arguments))
        except DatapathError as error:
            refused = _phrase(error)
        missing = f"the kernel refuses it ({refused}): boot one with {option}"
        yield _row(name, not refused, "a queue of this kind was set up", missing, needed=needed)


def _try_queue(name: str, arguments: dict[str, object]) -> str:
    """Add a queue to the loopback device of the calling thread's namespace; return the kernel's refusal, or ""."""
    from pyroute2 import IPRoute, NetlinkError

    with IPRoute() as route:
        try:
            route.tc("add", name, index=1, **arguments)
        except NetlinkError as error:
            return os.strerror(error.code)
    return ""


def in_own_namespace(call: Callable[[], str]) -> str:
    """Return the result of `call` in a network namespace that is made for it and removed afterwards.

    Raises:
        DatapathError: this process may not make a network namespace.
    """
    results: list[str] = []
    failed: list[BaseException] = []

    def run() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET):  # of this thread only, which ends with it
            failed.append(DatapathError(f"No network namespace can be made: {os.strerror(ctypes.get_errno())}."))
            return
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, name="ncc-check")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return results[0]


def _own(_: list[Row]) -> Iterator[Row]:
    try:
        there = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:  # a kernel without networking
        there = []
    for name in OWN_CONTROLLERS:
        missing = f"no reference beside ours: load the module tcp_{name} (modprobe) or boot a kernel with it"
        yield _row(f"kernel's {name}", name in there, f"linux::{name}", missing, needed=False)


CHECKS: tuple[Callable[[list[Row]], Iterator[Row]], ...] = (
    _processor,
    _kernel,
    _btf,
    _capabilities,
    _user_namespace,
    _places,
    _realtime,
    _libbpf,
    _objects,
    _struct_ops,
    _switch,
    _pyroute2,
    _queues,
    _own,
)
"""All checks, in an order in which each needs only earlier ones."""
