# SPDX-License-Identifier: BSD-3-Clause
"""Named parts in one small file of one possible form: a ZIP archive without compression, dates or anything optional.

Any tool for ZIP archives opens it. Reading is strict: whatever differs from what `pack` would write for the same parts
is refused, so no byte can change unnoticed, and nothing is ever unpacked, so nothing can grow.
"""

import hashlib
import re
import stat
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from ncc.core.errors import ConfigError, ResultError

MAX_BYTES = 1_000_000
"""Of a whole file."""
MAX_PARTS = 16
SUMS = "SHA256SUMS"
"""The last part: SHA-256 of every other, as `sha256sum -c` reads it."""

_NAME = re.compile(r"[A-Za-z0-9_.]{1,64}", re.ASCII)
# PKWARE, .ZIP File Format Specification 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_VERSION, _STORED, _TIME, _DATE = 20, 0, 0, (1 << 5) | 1
"""ZIP 2.0; no compression; midnight of 1 January 1980, the first date that there is."""
_MODE = 0o100644 << 16
"""A plain file that all may read."""
_UNIX = 3 << 8


def pack(parts: Mapping[str, bytes]) -> bytes:
    """The file's bytes; equal parts in equal order give equal bytes.

    Raises:
        ConfigError: a name that cannot be one, no part or too many, or more than `MAX_BYTES` in all.
    """
    if not 1 <= len(parts) <= MAX_PARTS or not all(_NAME.fullmatch(name) for name in parts):
        raise ConfigError(
            f"a policy file has 1 to {MAX_PARTS} parts with names of letters, digits, _ and ., got {list(parts)}"
        )
    files, directory = bytearray(), bytearray()
    for name, data in parts.items():
        encoded, at = name.encode("ascii"), len(files)
        shape = (_TIME, _DATE, zlib.crc32(data), len(data), len(data), len(encoded), 0)
        files += _LOCAL.pack(b"PK\3\4", _VERSION, 0, _STORED, *shape) + encoded + data
        made = (_UNIX | _VERSION, _VERSION, 0, _STORED)
        directory += _CENTRAL.pack(b"PK\1\2", *made, *shape, 0, 0, 0, _MODE, at) + encoded
    end = _END.pack(b"PK\5\6", 0, 0, len(parts), len(parts), len(directory), len(files), 0)
    packed = bytes(files + directory + end)
    if len(packed) > MAX_BYTES:
        raise ConfigError(
            f"a policy file may have {MAX_BYTES} bytes and this would have {len(packed)}: train a smaller policy"
        )
    return packed


def unpack(data: bytes, where: str) -> dict[str, bytes]:
    """The parts of a file's bytes, in their order.

    Raises:
        ResultError: too large, cut short, or not byte for byte what `pack` writes.
    """
    if len(data) > MAX_BYTES:
        raise ResultError(f"{where} has more than the {MAX_BYTES} bytes that a policy file may have; name another file")
    parts: dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == b"PK\3\4":
        at = _take(data, at, parts, where)
    if not parts:
        raise ResultError(f"{where} is no policy file: it does not begin with a part; make one with ncc export")
    if data[at:] != pack(parts)[at:]:
        raise ResultError(f"{where} is damaged: it does not end as its parts do; {_REMEDY}")
    if data != pack(parts):
        raise ResultError(f"{where} is damaged: its parts are not described as ncc export does; {_REMEDY}")
    return parts


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, of which no more than `MAX_BYTES` and one are read.

    Raises:
        ResultError: no such file, not a plain file, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ResultError(f"{path} is not a plain file; name a policy file that ncc export made")
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ResultError(f"there is no policy file {path}; make it with ncc export") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        says = error.strerror if isinstance(error, OSError) else None
        raise ResultError(f"cannot read the policy file {path}: {says or error}; check its permissions") from None


def sums_of(parts: Mapping[str, bytes]) -> bytes:
    """What `SUMS` says of the other parts."""
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in parts.items() if name != SUMS]
    return "".join(lines).encode("ascii")


_REMEDY = "copy it again, or export it again"


def _take(data: bytes, at: int, parts: dict[str, bytes], where: str) -> int:
    """Read the part at `at` into `parts`; where the next begins."""
    begin = at + _LOCAL.size
    if begin > len(data):
        raise ResultError(f"{where} is cut short within its part {len(parts)}; {_REMEDY}")
    fields: tuple[int, ...] = _LOCAL.unpack_from(data, at)[1:]
    *_, crc, _, size, length, _ = fields
    name = data[begin : begin + length].decode("latin-1")
    middle, end = begin + length, begin + length + size
    if end > len(data):
        raise ResultError(f"{where} is cut short: its part {len(parts)} does not end within it; {_REMEDY}")
    if not _NAME.fullmatch(name) or name in parts or len(parts) == MAX_PARTS:
        raise ResultError(
            f"{where} is damaged: part {len(parts)} is called {name[:64]!r}, and a policy file has at most {MAX_PARTS} "
            f"parts, each with a name of its own; {_REMEDY}"
        )
    if zlib.crc32(data[middle:end]) != crc:
        raise ResultError(f"{where} is damaged: its part {name} does not have the checksum that it states; {_REMEDY}")
    parts[name] = data[middle:end]
    return end
