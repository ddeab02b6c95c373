# SPDX-License-Identifier: BSD-3-Clause
"""Sections of an object file, without tools that may not be installed."""

import struct
from pathlib import Path

EM_BPF = 247


def sections(path: Path) -> dict[str, bytes]:
    """Contents by name, of a 64-bit little-endian object for BPF; fails for any other."""
    data = path.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01"
    assert struct.unpack_from("<H", data, 18)[0] == EM_BPF
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names_at = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = headers[names_at][4]
    found = {}
    for name, kind, _, _, offset, length in headers:
        text = data[names + name : data.index(b"\0", names + name)].decode()
        found[text] = b"" if kind == 8 else data[offset : offset + length]  # SHT_NOBITS has none
    return found
