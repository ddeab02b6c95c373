# SPDX-License-Identifier: BSD-3-Clause
"""Checks of whether this machine can run the Linux datapath, in an order in which each needs only earlier ones.

Nothing is left behind: every trial runs in a network namespace of its own or is undone at once.
"""

import ctypes
import os
import platform
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ncc.core.errors import ConfigError, DatapathError, NccError
from ncc.core.extras import install_command, is_installed
from ncc.envs.linux import objects
from ncc.envs.linux.extension import bpf

T = TypeVar("T")
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
    "CAP_NET_RAW": (13, "to wake flows that wait for their receivers"),
}
"""Number and purpose of each capability."""
NOT_ALWAYS = ("CAP_NET_RAW",)
"""Capabilities that only some runs need."""
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


class Check(NamedTuple):
    """One check; `run` returns what it found, or raises `DatapathError` with what is missing and what to do."""

    name: str
    run: Callable[[], str]
    needed: bool = True
    after: tuple[str, ...] = ()
    """Names of the checks that must have succeeded."""


def can_run(rows: list[Row]) -> bool:
    """Return True if everything that a run needs is there."""
    return all(row.state is State.THERE for row in rows if row.needed)


def check_machine() -> list[Row]:
    """Run all checks, as any user; a check that cannot be tried gives a row that says so."""
    rows: dict[str, Row] = {}
    for name, run, needed, after in CHECKS:
        state = State.THERE
        if lacking := [other for other in after if rows[other].state is not State.THERE]:
            state, sentence = State.UNTRIED, f"it can be tried only with: {', '.join(lacking)}"
        else:
            try:
                sentence = run()
            except NccError as error:
                state, sentence = State.MISSING, str(error).removesuffix(".")
        rows[name] = Row(name, state, needed, sentence)
    return list(rows.values())


def _found(fine: bool, found: str, missing: str) -> str:
    """Return what was found, or raise `DatapathError` with what is missing."""
    if not fine:
        raise DatapathError(missing)
    return found


def capabilities() -> int:
    """Bit mask of this process's effective capabilities; 0 on other systems than Linux."""
    try:
        return int(re.findall(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)[0], 16)
    except (OSError, IndexError):  # not Linux
        return 0


def _kernel() -> str:
    found = f"{platform.system()} {platform.release()}"
    numbers = re.match(r"Linux (\d+)\.(\d+)", found)
    fine = numbers is not None and (int(numbers[1]), int(numbers[2])) >= KERNEL_LEAST
    return _found(fine, found, f"this is {found}: boot Linux {'.'.join(map(str, KERNEL_LEAST))} or later")


def _capability(name: str) -> str:
    bit, purpose = CAPABILITIES[name]
    return _found(bool(capabilities() >> bit & 1), purpose, f"it is needed {purpose}, which takes root (sudo)")


def _realtime() -> str:
    before = (os.sched_getscheduler(0), os.sched_getparam(0))
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, *before)
    except PermissionError:
        raise DatapathError(
            "periods are missed on a machine with other work: it takes root (CAP_SYS_NICE), outside control groups "
            "with cpu.rt_runtime_us 0"
        ) from None
    return "decisions can go before everything else (CAP_SYS_NICE)"


def _libbpf() -> str:
    major, minor = bpf().version()
    found = f"version {major}.{minor}"
    return _found(major >= 1, found, f"it is {found}: install 1.0 or later (package libbpf1)")


def _helpers() -> str:
    place = objects.folder()
    lacking = [name for name in HELPERS if place is None or not (place / name).is_file()]
    missing = f"{', '.join(lacking)} not built: install gcc, then run `make build` or reinstall ncc"
    return _found(not lacking, ", ".join(HELPERS), missing)


def _struct_ops() -> str:
    opened = bpf().Object(str(objects.controller_object("newreno")), None)
    try:
        opened.load()
        opened.register("shim")
    except bpf().RegisteredError:
        return "another process has a controller registered"
    finally:
        opened.close()
    return "a controller was registered and taken back"


def _switch() -> str:
    opened = bpf().Object(str(objects.require_built()["switch"]), None)
    try:
        opened.load()
    finally:
        opened.close()
    return "it marks, drops and counts at ports"


def _tun() -> str:
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise DatapathError(
            f"{TUN} cannot be opened ({error.strerror}), which links with a delay take: modprobe tun, or let a "
            "container have it"
        ) from None
    return "links can have a delay"


def _order() -> str:
    from ncc.envs.linux.offer import offered

    offer = offered()
    return _found(offer.kind != "none", offer.sentence, f"hosts can have no limits and orders: {offer.sentence}")


def _queue(name: str, option: str, arguments: dict[str, object]) -> str:
    """Try a queue at the loopback device of a namespace made for it; `arguments` are those of pyroute2's `tc`."""
    from pyroute2 import IPRoute, NetlinkError

    def attempt() -> None:
        with IPRoute() as route:
            try:
                route.tc("add", name, index=1, **arguments)
            except NetlinkError as error:
                raise DatapathError(
                    f"the kernel refuses it ({os.strerror(error.code)}): boot one with {option}"
                ) from None

    in_own_namespace(attempt)
    return "a queue of this kind was set up"


def not_root(refusal: str) -> DatapathError:
    """Error of a process that may not make or remove namespaces; `refusal` is the kernel's word for it."""
    return DatapathError(
        f"Network namespaces take root (sudo), or CAP_SYS_ADMIN and CAP_NET_ADMIN ({refusal}): run as root, or use "
        "datapath=packetsim."
    )


def in_own_namespace(call: Callable[[], T]) -> T:
    """Return the result of `call`, made in a thread of its own with a new network namespace.

    The namespace ends with the thread, unless `call` has given it a name.
    """

    def enter(libc: ctypes.CDLL) -> None:
        if libc.unshare(CLONE_NEWNET):  # of this thread only
            raise not_root(os.strerror(ctypes.get_errno()))

    return _in_thread(enter, call)


def in_namespace(path: Path, call: Callable[[], T]) -> T:
    """Return the result of `call`, made in a thread of its own in the network namespace of a file."""

    def enter(libc: ctypes.CDLL) -> None:
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"Network namespace {path} cannot be opened: {error.strerror}.") from None
        try:
            if libc.setns(opened, CLONE_NEWNET):
                raise ConfigError(
                    f"Network namespace {path} cannot be entered ({os.strerror(ctypes.get_errno())}): it takes root "
                    "(sudo), or CAP_SYS_ADMIN, and a file of a network namespace."
                )
        finally:
            os.close(opened)

    return _in_thread(enter, call)


def _in_thread(enter: Callable[[ctypes.CDLL], None], call: Callable[[], T]) -> T:
    results: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            enter(ctypes.CDLL(None, use_errno=True))
            results.append(call())
        except Exception as error:  # noqa: BLE001 - raised again in the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, name="ncc-namespace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return results[0]


_IN_NAMESPACE = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN", "pyroute2")
_TBF: dict[str, object] = {"rate": 10**6, "burst": 10**4, "limit": 10**5}

CHECKS = (
    Check(
        "processor",
        lambda: _found(
            (found := platform.machine()) in PROCESSORS,
            found,
            f"this is {found}, and programs for the kernel are built for {' or '.join(PROCESSORS)}: use such a machine",
        ),
    ),
    Check("kernel", _kernel),
    Check(
        "BTF",
        lambda: _found(
            BTF.exists(),
            "the kernel describes its types",
            f"{BTF} does not exist: boot a kernel built with CONFIG_DEBUG_INFO_BTF",
        ),
    ),
    *(Check(name, partial(_capability, name), needed=name not in NOT_ALWAYS) for name in CAPABILITIES),
    Check(
        "user namespace",
        lambda: _found(
            not UID_MAP.exists() or UID_MAP.read_text().split() == EVERY_UID,
            "the machine's own",
            "this process is in one (a rootless container?), whose root is not the machine's: it takes root outside",
        ),
    ),
    Check(
        "/run",  # the kernel is asked, and nothing is written, because other processes may be reading there
        lambda: _found(
            os.access(RUN, os.W_OK | os.X_OK),
            "it can be written",
            f"the machine's lock and namespaces' names are there: make {RUN} writable, which takes root (sudo)",
        ),
    ),
    Check("TUN", _tun, needed=False),
    Check("SCHED_FIFO", _realtime, needed=False),
    Check("libbpf", _libbpf),
    Check(
        "BPF objects",
        lambda: _found(
            bool(shims := objects.controllers()),
            f"controllers {', '.join(shims)}",
            "they were not built: install clang and libbpf-dev, then run `make build` or reinstall ncc",
        ),
    ),
    Check("helper programs", _helpers),
    Check("struct_ops", _struct_ops, after=LOADING),
    Check("switch program", _switch, after=(*LOADING, "CAP_NET_ADMIN")),
    Check(
        "pyroute2",
        lambda: _found(is_installed("pyroute2"), "it makes the network", f"install it: {install_command('linux')}"),
    ),
    Check("tc", lambda: _found(shutil.which("tc") is not None, "it makes queues", "install it (package iproute2)")),
    Check("tbf", partial(_queue, "tbf", "CONFIG_NET_SCH_TBF", _TBF), after=_IN_NAMESPACE),
    Check(
        "clsact", partial(_queue, "clsact", "CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_ACT", {}), after=_IN_NAMESPACE
    ),
    Check("order in hosts", _order, needed=False, after=("CAP_NET_ADMIN", "CAP_SYS_ADMIN")),
)
"""All checks, in an order in which each needs only earlier ones."""
