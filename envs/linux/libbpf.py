# SPDX-License-Identifier: BSD-3-Clause
"""The part of the system's libbpf that loads programs and reads and writes maps."""

import ctypes as c
import errno
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError

SONAME = "libbpf.so.1"
PAGE = mmap.PAGESIZE
BPF_F_LINK = 1 << 13
BPF_STRUCT_OPS = 44
"""`enum bpf_attach_type`: a link to a struct_ops map; its registration ends when its last descriptor is closed."""
BPF_STATS_RUN_TIME = 0
BTF_KIND_STRUCT = 4
WARN = 0
_LOG_LINES = 40
_MISLEADING = re.compile("memlock|ulimit -l", re.IGNORECASE)
"""Pattern of libbpf's hints at a limit that kernels since 5.11 do not use: a privilege is missing instead."""

_P, _S, _I, _U = c.c_void_p, c.c_char_p, c.c_int, c.c_uint32
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "libbpf_major_version": (_U, []),
    "libbpf_minor_version": (_U, []),
    "bpf_object__open_file": (_P, [_S, _P]),
    "bpf_object__open_mem": (_P, [_S, c.c_size_t, _P]),
    "bpf_object__load": (_I, [_P]),
    "bpf_object__close": (None, [_P]),
    "bpf_object__btf": (_P, [_P]),
    "btf__find_by_name_kind": (_I, [_P, _S, _U]),
    "btf__type_by_id": (_P, [_P, _U]),
    "btf__name_by_offset": (_S, [_P, _U]),
    "bpf_object__find_map_by_name": (_P, [_P, _S]),
    "bpf_object__find_program_by_name": (_P, [_P, _S]),
    "bpf_object__next_program": (_P, [_P, _P]),
    "bpf_object__next_map": (_P, [_P, _P]),
    "bpf_map__name": (_S, [_P]),
    "bpf_map__fd": (_I, [_P]),
    "bpf_map__type": (_I, [_P]),
    "bpf_map__value_size": (_U, [_P]),
    "bpf_map__max_entries": (_U, [_P]),
    "bpf_map__map_flags": (_U, [_P]),
    "bpf_map__set_map_flags": (_I, [_P, _U]),
    "bpf_map__initial_value": (_P, [_P, c.POINTER(c.c_size_t)]),
    "bpf_map__attach_struct_ops": (_P, [_P]),
    "bpf_link__destroy": (_I, [_P]),
    "bpf_link__fd": (_I, [_P]),
    "bpf_link_create": (_I, [_I, _I, _I, _P]),
    "bpf_program__name": (_S, [_P]),
    "bpf_program__section_name": (_S, [_P]),
    "bpf_program__fd": (_I, [_P]),
    "bpf_program__set_log_level": (_I, [_P, _U]),
    "bpf_program__set_log_buf": (_I, [_P, _P, c.c_size_t]),
    "bpf_map_update_elem": (_I, [_I, _P, _P, c.c_uint64]),
    "bpf_map_lookup_elem": (_I, [_I, _P, _P]),
    "bpf_map_lookup_and_delete_elem": (_I, [_I, _P, _P]),
    "bpf_enable_stats": (_I, [_I]),
    "bpf_prog_get_next_id": (_I, [_U, c.POINTER(_U)]),
    "bpf_prog_get_fd_by_id": (_I, [_U]),
    "bpf_map_get_fd_by_id": (_I, [_U]),
    "bpf_obj_get_info_by_fd": (_I, [_I, _P, c.POINTER(_U)]),
}
_PRINT = c.CFUNCTYPE(_I, _I, _S, _P)


class RegisteredError(DatapathError):
    """Error: a congestion control of that name is registered already, so the kernel is able to register one."""


class Libbpf:
    """The shared library with typed functions, and its last warnings."""

    def __init__(self) -> None:
        self.lib = c.CDLL(SONAME, use_errno=True)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.said: list[str] = []
        self._vsnprintf = c.CDLL(None).vsnprintf
        self._vsnprintf.argtypes = [_S, c.c_size_t, _S, _P]
        self._print = _PRINT(self._hear)  # kept: libbpf calls it as long as it is loaded
        self.lib.libbpf_set_print.argtypes = [_PRINT]
        self.lib.libbpf_set_print(self._print)

    def _hear(self, level: int, form: bytes, arguments: int) -> int:
        if level == WARN:
            buffer = c.create_string_buffer(1 << 14)
            self._vsnprintf(buffer, len(buffer), form, arguments)
            self.said = [*self.said, buffer.value.decode(errors="replace").strip()][-_LOG_LINES:]
        return 0

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        return self.lib.libbpf_major_version(), self.lib.libbpf_minor_version()


@cache
def libbpf() -> Libbpf:
    """The library, loaded on first use.

    Raises:
        DatapathError: it is not installed.
    """
    try:
        return Libbpf()
    except (OSError, AttributeError) as error:
        raise DatapathError(
            f"{SONAME} cannot be used ({error}): install libbpf 1.0 or later (package libbpf1) to run real traffic."
        ) from error


def reason(number: int) -> str:
    """An error number in words."""
    return os.strerror(abs(number))


class KernelMap:
    """A map in the kernel, accessed by its descriptor."""

    def __init__(self, name: str, value_bytes: int, entries: int, fd: int) -> None:
        self.name, self.value_bytes, self.entries = name, value_bytes, entries
        self._fd = fd
        self._memory: mmap.mmap | None = None

    @property
    def fd(self) -> int:
        """File descriptor."""
        return self._fd

    def view(self, row: np.dtype[np.void]) -> NDArray[np.void]:
        """Return the map's rows [entries] in memory shared with the kernel.

        Raises:
            DatapathError: the rows of the map have another size than `row`.
        """
        if row.itemsize != self.value_bytes:
            raise DatapathError(
                f"Map {self.name} has rows of {self.value_bytes} bytes and ncc expects {row.itemsize}: the BPF objects "
                "are of another version; rebuild them with make build."
            )
        size = -(-row.itemsize * self.entries // PAGE) * PAGE
        self._memory = mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        return np.frombuffer(self._memory, row, self.entries)

    def update(self, key: bytes | None, value: bytes) -> None:
        """Set an element; without a key, push it onto a queue."""
        self._check(libbpf().lib.bpf_map_update_elem(self.fd, key, value, 0), "update")

    def lookup(self, key: bytes) -> bytes:
        """A copy of an element."""
        value = c.create_string_buffer(self.value_bytes)
        self._check(libbpf().lib.bpf_map_lookup_elem(self.fd, key, value), "look into")
        return value.raw

    def pop(self) -> bytes | None:
        """Take the head off a queue and return it; None if the queue is empty."""
        value = c.create_string_buffer(self.value_bytes)
        result = libbpf().lib.bpf_map_lookup_and_delete_elem(self.fd, None, value)
        if result == -errno.ENOENT:
            return None
        self._check(result, "pop from")
        return value.raw

    def _check(self, result: int, what: str) -> None:
        if result:
            raise DatapathError(f"The kernel would not {what} map {self.name}: {reason(result)}.")


class Map(KernelMap):
    """A map of an object: its shape and, once the object is loaded, its contents."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer
        lib = libbpf().lib
        name, size, entries = (getattr(lib, f"bpf_map__{what}") for what in ("name", "value_size", "max_entries"))
        super().__init__(name(pointer).decode(), size(pointer), entries(pointer), -1)

    @property
    def fd(self) -> int:
        """File descriptor; negative before the object is loaded."""
        return int(libbpf().lib.bpf_map__fd(self._pointer))

    def add_flags(self, flags: int) -> None:
        """Add flags to the map, which must happen before the object is loaded."""
        lib = libbpf().lib
        self._check(lib.bpf_map__set_map_flags(self._pointer, lib.bpf_map__map_flags(self._pointer) | flags), "set")

    def initial(self) -> NDArray[np.uint8]:
        """Return the bytes of a data section, which may be changed until the object is loaded."""
        size = c.c_size_t()
        at = libbpf().lib.bpf_map__initial_value(self._pointer, c.byref(size))
        if not at:
            raise DatapathError(f"Map {self.name} of a BPF object has no initial value: rebuild it with make build.")
        return np.ctypeslib.as_array(c.cast(at, c.POINTER(c.c_uint8)), (size.value,))


class Program:
    """A program of an object."""

    def __init__(self, pointer: int) -> None:
        lib = libbpf().lib
        self.name: str = lib.bpf_program__name(pointer).decode()
        self.section: str = lib.bpf_program__section_name(pointer).decode()
        self._pointer = pointer

    @property
    def fd(self) -> int:
        """File descriptor; negative before the object is loaded."""
        return int(libbpf().lib.bpf_program__fd(self._pointer))

    def facts(self) -> dict[str, int]:
        """Read the kernel's numbers of the program, such as run_cnt, run_time_ns and recursion_misses."""
        lines = Path(f"/proc/self/fdinfo/{self.fd}").read_text().splitlines()
        pairs = (line.split(":", 1) for line in lines)
        return {key: int(value) for key, value in pairs if value.strip().isdecimal()}


class Object:
    """A BPF object: opened, then loaded. A context manager; `close` may be called twice.

    Raises:
        DatapathError: it cannot be opened.
    """

    def __init__(self, path: Path, data: bytes | None = None) -> None:
        """Open the object at a path, or with `data` these bytes, which were derived from it."""
        self.path = path
        self._library = libbpf()
        self._library.said.clear()
        lib = self._library.lib
        if data is None:
            pointer = lib.bpf_object__open_file(os.fsencode(path), None)
        else:
            pointer = lib.bpf_object__open_mem(data, len(data), None)
        if not pointer:
            raise DatapathError(
                f"BPF object {path.name} cannot be opened ({reason(c.get_errno())}{self._complaint()}): make build."
            )
        self._pointer: int | None = pointer
        self._links: list[int] = []
        self._attached: list[int] = []

    def maps(self) -> Iterator[Map]:
        """Iterate over all maps."""
        at = self._library.lib.bpf_object__next_map(self._open(), None)
        while at:
            yield Map(at)
            at = self._library.lib.bpf_object__next_map(self._open(), at)

    def programs(self) -> Iterator[Program]:
        """Iterate over all programs."""
        at = self._library.lib.bpf_object__next_program(self._open(), None)
        while at:
            yield Program(at)
            at = self._library.lib.bpf_object__next_program(self._open(), at)

    def map(self, name: str) -> Map:
        """Find a map by its name, or a data section by the name of the section."""
        at = self._library.lib.bpf_object__find_map_by_name(self._open(), name.encode())
        if not at:
            raise DatapathError(f"BPF object {self.path.name} has no map {name!r}: rebuild it with make build.")
        return Map(at)

    def program(self, name: str) -> Program:
        """Find a program by its name."""
        at = self._library.lib.bpf_object__find_program_by_name(self._open(), name.encode())
        if not at:
            raise DatapathError(f"BPF object {self.path.name} has no program {name!r}: rebuild it with make build.")
        return Program(at)

    def fields(self, struct: str) -> tuple[int, dict[str, int]]:
        """Return the size of a struct that the programs know, and the offset of each field, in bytes.

        Raises:
            DatapathError: the programs know no struct of that name.
        """
        lib = self._library.lib
        btf = lib.bpf_object__btf(self._open())
        number = lib.btf__find_by_name_kind(btf, struct.encode(), BTF_KIND_STRUCT) if btf else -1
        if number < 0:
            raise DatapathError(f"BPF object {self.path.name} does not describe struct {struct}: rebuild it.")
        words = c.cast(lib.btf__type_by_id(btf, number), c.POINTER(_U))  # struct btf_type, then its btf_members
        members = range(words[1] & 0xFFFF)
        names = (lib.btf__name_by_offset(btf, words[3 + 3 * i]).decode() for i in members)
        return words[2], {name: (words[5 + 3 * i] & 0xFFFFFF) // 8 for i, name in zip(members, names, strict=True)}

    def load(self) -> None:
        """Create its maps and have its programs verified.

        Raises:
            DatapathError: the kernel refuses; the message has its reasons.
        """
        result = self._library.lib.bpf_object__load(self._open())
        if result:
            raise DatapathError(
                f"The kernel refuses BPF object {self.path.name} ({reason(result)}); `ncc host check` says "
                f"what is missing.{self._complaint()}"
            )

    def register(self, name: str) -> None:
        """Register the struct_ops map `name` for as long as this object is open and this process lives.

        Raises:
            RegisteredError: another process has registered it.
            DatapathError: the kernel refuses for another reason.
        """
        lib, entry = self._library.lib, self.map(name)
        link = lib.bpf_map__attach_struct_ops(entry._pointer)
        if not link:
            self._refuse(name, c.get_errno())
        self._attached.append(link)
        if self._library.version >= (1, 2):  # the link is one of the kernel's already
            return
        fd = lib.bpf_link_create(entry.fd, 0, BPF_STRUCT_OPS, None)
        if fd < 0:
            self._refuse(name, -fd)
        self._links.append(fd)

    def _refuse(self, name: str, number: int) -> NoReturn:
        if number == errno.EEXIST:
            raise RegisteredError(
                f"The kernel would not register {name} of {self.path.name}: another process has registered it, and has "
                "to end first."
            )
        raise DatapathError(
            f"The kernel would not register {name} of {self.path.name} ({reason(number)}).{self._complaint()}"
        )

    @property
    def links(self) -> list[int]:
        """Descriptors of the registrations, each of which lasts as long as a process holds its descriptor."""
        return self._links or [int(self._library.lib.bpf_link__fd(link)) for link in self._attached]

    def close(self) -> None:
        """Unregister and unload; programs that sockets still use are removed when the sockets close."""
        links, self._links, attached, self._attached = self._links, [], self._attached, []
        for fd in links:
            os.close(fd)
        for link in attached:
            self._library.lib.bpf_link__destroy(link)
        if self._pointer is not None:
            self._library.lib.bpf_object__close(self._pointer)
            self._pointer = None

    def __enter__(self) -> "Object":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        if self._pointer is None:
            raise DatapathError(f"BPF object {self.path.name} is closed.")
        return self._pointer

    def _complaint(self) -> str:
        said = " ".join(line for line in self._library.said[-6:] if not _MISLEADING.search(line))
        return f" libbpf: {said}" if said else ""


@contextmanager
def statistics() -> Iterator[None]:
    """Let the kernel count runs and run time of BPF programs inside the context, at most until this process ends."""
    fd = libbpf().lib.bpf_enable_stats(BPF_STATS_RUN_TIME)
    if fd < 0:
        raise DatapathError(f"The kernel would not count the run time of BPF programs: {reason(fd)}.")
    try:
        yield
    finally:
        os.close(fd)
