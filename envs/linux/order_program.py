# SPDX-License-Identifier: BSD-3-Clause
"""Programs in the kernel that sort a host's packets into classes of priority.

`OrderProgram` gives a packet its class in the host's own queue. `TagProgram` writes a class into the packet, by which
the ports on its way serve it.
"""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ncc.baselines.registry import Params, check_named, named
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.units import NS_PER_S
from ncc.envs.linux.extension import memory, open_object
from ncc.envs.linux.objects import require_built

CLASSES = 8
"""Number of classes of the order."""
SIZE_LEVEL, SIZE_OPTION = 0x4E43, 1
"""Level and name of the socket option by which an application announces the size of its next message, in bytes (32
bits). Any user may set it. Where no program takes sizes, the kernel refuses it (ENOPROTOOPT)."""
Mode = Literal["fifo", "known"]
MODES = get_args(Mode)
COUNTERS = ("messages", "demotions", "hinted", "silent_pkts")
"""Counters of the program: messages that began, moves of messages to a later class, messages with an announced size,
and packets that left outside the limit because user space was silent."""
PARAMS_MAX = 16
"""Most parameters of a tag: NCC_CC_PARAMS_MAX of cc.h."""
CONFIG = np.dtype([*((name, "<u8") for name in ("beat_ns", "timeout_ns", "mode")), ("upto_bytes", "<u8", (7,))])
"""`struct ncc_order_config`."""
COUNTS = np.dtype([(name, "<u8") for name in COUNTERS])
"""`struct ncc_order_counts`."""
STRUCTS = {"ncc_order_config": CONFIG, "ncc_order_counts": COUNTS}
"""Row types by the names of their structs in C."""
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE, _CLOEXEC = 430, 431, 432, 6, 1
"""System calls, FSCONFIG_CMD_CREATE and FSOPEN_CLOEXEC of linux/mount.h, which the C library may not have yet."""


class OrderProgram:
    """The program (bpf/order.bpf.c) that names the class of each packet, for all `HostQueue` of this process.

    Args:
        timeout_s: seconds without `beat` after which packets leave outside the limits, > 0.
        mode: "known" orders by the known bytes of messages; "fifo" limits only, and data leaves in order of arrival.
        params: parameters of order `known`: the largest message of each class, in bytes.

    Attributes:
        fd: file descriptor of the program.
        mode: as given.
        takes_sizes: true if the order uses the sizes that applications of this machine announce (`SIZE_OPTION`).

    Raises:
        ConfigError: the largest messages do not rise from class to class.
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, timeout_s: float, mode: Mode = "known", params: Params = ()) -> None:
        largest_bytes = _thresholds_bytes(params)
        if sorted(largest_bytes) != largest_bytes:
            raise ConfigError(
                f"Largest messages must rise from class to class of order known, got {largest_bytes}: correct its "
                f"parameters class1_bytes to class{CLASSES - 1}_bytes."
            )
        self.mode = mode
        self._object = open_object(require_built()["order"])
        self._config = memory(self._object, "config", CONFIG)
        self._beat_ns = self._config["beat_ns"]
        self._counts = memory(self._object, "counts", COUNTS)
        self._silent_pkts = self._counts["silent_pkts"]
        self.fd: int = self._object.programs["ncc_order"]
        self.takes_sizes = mode == "known" and take_sizes(self._object)
        self._config["timeout_ns"] = round(timeout_s * NS_PER_S)
        self._config["mode"] = MODES.index(mode)
        self._config["upto_bytes"] = largest_bytes

    def beat(self, now_ns: int | None = None) -> None:
        """Renew limits and order for another `timeout_s`; `now_ns` is `time.monotonic_ns()`."""
        self._beat_ns[0] = time.monotonic_ns() if now_ns is None else now_ns

    @property
    def silent_pkts(self) -> int:
        """Number of packets that have left outside the limits because no `beat` came, as in `counters`."""
        return int(self._silent_pkts.item())

    def counters(self) -> dict[str, int]:
        """Return the program's counts since it was loaded, by the names in `COUNTERS`."""
        return {name: int(self._counts[name][0]) for name in COUNTERS}

    def close(self) -> None:
        """Unload the program; devices that still use it keep it, and soon lose their limit."""
        self._object.close()


class TagProgram:
    """The program of one tag of baselines/tags (bpf/tag.bpf.c), for all hosts of a `Rack`.

    It gives data packets the class of their flow. Packets without data, or of protocols other than TCP, have class 0.
    A flow is the data that a connection sends until all that was written is acknowledged; its size is the part that the
    host knows. `close` may be called twice.

    Args:
        name: name of a tag in `baselines/tags/`.
        params: parameters that differ from their defaults.

    Attributes:
        fd: file descriptor of the program.
        takes_sizes: as in `OrderProgram`.

    Raises:
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, name: str, params: Params = ()) -> None:
        row = np.zeros(PARAMS_MAX, np.uint64)
        values = list(check_named("tags", name, params).values())
        row[: len(values)] = values
        self._object = open_object(require_built()[f"tag_{name}"], {".rodata.tag": row.tobytes()})
        self.fd: int = self._object.programs["ncc_tag"]
        self.takes_sizes = take_sizes(self._object)

    def close(self) -> None:
        """Unload the program; devices that still have it keep it until their namespace is removed."""
        self._object.close()


def take_sizes(opened: Any) -> bool:
    """Let a loaded program read the sizes that applications of this machine announce; return False if that fails."""
    try:
        with _control_groups() as group:
            opened.attach("ncc_message_told", group)
    except (DatapathError, OSError):  # no such folder, or a kernel without CONFIG_CGROUP_BPF
        return False
    return True


def _thresholds_bytes(params: Params) -> list[int]:
    """Return the largest message of each class except the last, from parameters of order `known`; ignore others."""
    given = dict(params)
    return [
        given.get(param.name, param.default) for param in named("flow order")["known"] if param.name.startswith("class")
    ]


@contextmanager
def _control_groups() -> Iterator[str]:
    """Yield the folder of the control groups of version 2.

    `ip netns exec` hides it from its command. If it is hidden, mount it, visible to this process alone.

    Raises:
        OSError: it is not mounted, and this process may not mount it.
    """
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    if mounted := next((mount[1] for mount in mounts if mount[2] == "cgroup2"), None):
        yield mounted
        return
    with ExitStack() as opened:
        filesystem = _call(_FSOPEN, b"cgroup2", _CLOEXEC)
        opened.callback(os.close, filesystem)
        _call(_FSCONFIG, filesystem, _CREATE, None, None, 0)
        mount = _call(_FSMOUNT, filesystem, _CLOEXEC, 0)
        opened.callback(os.close, mount)
        yield f"/proc/self/fd/{mount}"


def _call(number: int, *arguments: int | bytes | None) -> int:
    done: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done
