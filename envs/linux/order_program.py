# SPDX-License-Identifier: BSD-3-Clause
"""`OrderProgram`: the program before the queues of hosts (bpf/order.bpf.c), which says what goes first."""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import extension, memory, open_object
from ncc.envs.linux.objects import require_built
from ncc.envs.native.params import Params

CLASSES = 8
"""Number of classes of the order."""
SIZE_LEVEL, SIZE_OPTION = 0x4E43, 1
"""Level and name of the socket option by which an application tells the bytes of the message that it is about to write,
as a 32-bit number. It takes no privilege, and is refused (ENOPROTOOPT) where no program takes sizes."""
Mode = Literal["fifo", "known"]
MODES = get_args(Mode)
COUNTERS = ("messages", "demotions", "hinted", "silent_pkts")
"""Counters of the program: messages that began, that moved to a later class, whose size the application had told; and
packets that left outside the limit because user space was silent."""
CONFIG = np.dtype([*((name, "<u8") for name in ("beat_ns", "timeout_ns", "mode")), ("upto_bytes", "<u8", (7,))])
"""`struct ncc_order_config`."""
COUNTS = np.dtype([(name, "<u8") for name in COUNTERS])
"""`struct ncc_order_counts`."""
STRUCTS = {"ncc_order_config": CONFIG, "ncc_order_counts": COUNTS}
"""Row types by the names of their structs in C."""
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE, _CLOEXEC = 430, 431, 432, 6, 1
"""System calls, FSCONFIG_CMD_CREATE and FSOPEN_CLOEXEC of linux/mount.h, which the C library may not have yet."""


class OrderProgram:
    """The program that names the class of each packet, for all `HostQueue` of this process.

    Args:
        timeout_s: seconds without `beat` after which packets leave outside the limits, > 0.
        mode: "known" orders by what is known of messages; "fifo" only limits, all data in the order it comes.
        params: parameters of order `known`, the largest messages of classes.

    Attributes:
        fd: file descriptor of the program.
        mode: as given.
        takes_sizes: true if the order counts the sizes that applications of this machine tell (`SIZE_OPTION`).

    Raises:
        ConfigError: the classes of the order do not rise.
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, timeout_s: float, mode: Mode = "known", params: Params = ()) -> None:
        thresholds = _thresholds_bytes(params)
        if sorted(thresholds) != thresholds:
            raise ConfigError(
                f"Largest messages must rise from class to class of order known, got {thresholds}: correct its "
                f"parameters class1_bytes to class{CLASSES - 1}_bytes."
            )
        self.mode = mode
        self._object = open_object(require_built()["order"])
        self._config = memory(self._object, "config", CONFIG)
        self._beat_ns = self._config["beat_ns"]
        self._counts = memory(self._object, "counts", COUNTS)
        self.fd: int = self._object.programs["ncc_order"]
        self.takes_sizes = mode == "known" and take_sizes(self._object)
        self._config["timeout_ns"] = round(timeout_s * NS_PER_S)
        self._config["mode"] = MODES.index(mode)
        self._config["upto_bytes"] = thresholds

    def beat(self, now_ns: int | None = None) -> None:
        """Renew limits and order for another `timeout_s`; `now_ns` is `time.monotonic_ns()`."""
        self._beat_ns[0] = time.monotonic_ns() if now_ns is None else now_ns

    def counters(self) -> dict[str, int]:
        """Return the program's counts since it was loaded, by the names in `COUNTERS`."""
        return {name: int(self._counts[name][0]) for name in COUNTERS}

    def close(self) -> None:
        """Unload the program; devices that still have it keep it, and are soon without a limit."""
        self._object.close()


def take_sizes(opened: Any) -> bool:
    """Let a loaded object see the sizes that applications of this machine tell; return False if it cannot be."""
    try:
        with _control_groups() as group:
            opened.attach("ncc_message_told", group)
    except (DatapathError, OSError):  # no such folder, or a kernel without CONFIG_CGROUP_BPF
        return False
    return True


def _thresholds_bytes(params: Params) -> list[int]:
    """Return the largest message of each class but the last, by parameters of order `known`; others are ignored."""
    own = dict(params)
    rows = extension().order_params("known")
    return [own.get(name, default) for name, default, *_ in rows if name.startswith("class")]


@contextmanager
def _control_groups() -> Iterator[str]:
    """Yield the folder of the control groups of version 2.

    `ip netns exec` hides it from what it runs; who may mount it makes it visible to this call alone.

    Raises:
        OSError: it is neither mounted, nor may this process mount it.
    """
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    if mounted := next((mount[1] for mount in mounts if mount[2] == "cgroup2"), None):
        yield mounted
        return
    with ExitStack() as opened:
        made = _call(_FSOPEN, b"cgroup2", _CLOEXEC)
        opened.callback(os.close, made)
        _call(_FSCONFIG, made, _CREATE, None, None, 0)
        mount = _call(_FSMOUNT, made, _CLOEXEC, 0)
        opened.callback(os.close, mount)
        yield f"/proc/self/fd/{mount}"


def _call(number: int, *arguments: int | bytes | None) -> int:
    done: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done
