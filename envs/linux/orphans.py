# SPDX-License-Identifier: BSD-3-Clause
"""Maps of programs in the kernel whose loader may have ended, found by the programs' names."""

import ctypes as c
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack

from ncc.core.errors import DatapathError
from ncc.envs.linux.libbpf import KernelMap, libbpf, reason

NAME_BYTES = 15
"""Number of characters of a name that the kernel keeps."""
_MAPS_MAX = 64
_PROGRAM = struct.Struct("=52xIQ16s")
"""Fields of `struct bpf_prog_info`: nr_map_ids, map_ids, name."""
_MAP = struct.Struct("=12xII4x16s")
"""Fields of `struct bpf_map_info`: value_size, max_entries, name."""


def maps_of(program: str) -> Iterator[dict[str, KernelMap]]:
    """Iterate over the programs of that name in the kernel, newest last; yield the maps of each by name.

    The caller closes the maps' descriptors.

    Raises:
        DatapathError: this process lacks CAP_SYS_ADMIN.
    """
    lib, number = libbpf().lib, c.c_uint32(0)
    while lib.bpf_prog_get_next_id(number, c.byref(number)) == 0:
        fd = lib.bpf_prog_get_fd_by_id(number)
        if fd == -2:  # ENOENT: it has been removed meanwhile
            continue
        if fd < 0:
            raise DatapathError(f"The kernel's programs cannot be looked at ({reason(fd)}): it takes root (sudo).")
        try:
            if (maps := maps_if(fd, program)) is not None:
                yield maps
        finally:
            os.close(fd)


def maps_if(fd: int, program: str) -> dict[str, KernelMap] | None:
    """Return the maps of the program behind a descriptor; None if the program has another name.

    The caller closes the maps' descriptors.

    Raises:
        DatapathError: the descriptor is not a program's, or this process may not look at it.
    """
    ids = (c.c_uint32 * _MAPS_MAX)()
    count, _, name = _info(fd, _PROGRAM, _PROGRAM.pack(_MAPS_MAX, c.addressof(ids), b""))
    return _open_maps(ids[: min(count, _MAPS_MAX)]) if _text(name) == program[:NAME_BYTES] else None


def _open_maps(ids: list[int]) -> dict[str, KernelMap]:
    maps = {}
    with ExitStack() as stack:
        for number in ids:
            fd = libbpf().lib.bpf_map_get_fd_by_id(number)
            if fd < 0:
                raise DatapathError(
                    f"Map {number} of the kernel cannot be opened ({reason(fd)}): it takes root (sudo)."
                )
            stack.callback(os.close, fd)
            value_bytes, entries, name = _info(fd, _MAP, bytes(_MAP.size))
            maps[_text(name)] = KernelMap(_text(name), value_bytes, entries, fd)
        stack.pop_all()
    return maps


def _info(fd: int, form: struct.Struct, asked: bytes) -> tuple[int, int, bytes]:
    buffer, size = c.create_string_buffer(asked, 256), c.c_uint32(256)
    result = libbpf().lib.bpf_obj_get_info_by_fd(fd, buffer, c.byref(size))
    if result:
        raise DatapathError(f"The kernel would not describe a program or map: {reason(result)}.")
    first, second, name = form.unpack_from(buffer)
    return first, second, name


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode()
