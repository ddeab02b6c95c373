# SPDX-License-Identifier: BSD-3-Clause
"""Named arrays and a JSON header as the bytes of one safetensors file, the format of policies and checkpoints.

Reading is strict: bytes that are not exactly those that `packed_arrays` makes of their contents are refused.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ncc.core.errors import ConfigError, ResultError

Arrays = Mapping[str, npt.NDArray[Any]]
REMEDY = "copy it again, or make it again"


def packed_arrays(kind: str, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a safetensors file; a SHA-256 digest of header and arrays is added to the header.

    All metadata is one entry, because safetensors writes several entries in no fixed order.

    Args:
        kind: kind of file, and key of that entry: `policy file`, for instance.

    Raises:
        ConfigError: the header is not JSON.
    """
    try:
        text = json.dumps(header, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the header of a {kind} must be plain JSON (no NaN, no objects): {error}") from None
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return save(dict(arrays), {kind: json.dumps({**header, "sha256": digest.hexdigest()})})


def unpacked_arrays(data: bytes, kind: str, version: int, where: str) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of these bytes; errors call the file `where`.

    Raises:
        ResultError: damaged, of another kind, or of another format than `version`.
    """
    try:
        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = msgspec.json.decode(data[8 : 8 + length]).get("__metadata__", {})
        header = msgspec.json.decode(metadata.get(kind, "null"))
        if not isinstance(header, dict):
            raise TypeError(f"its metadata holds no {kind}")
        if (number := header.get("format")) != version or isinstance(number, bool):
            raise ResultError(
                f"{where} has format {str(number)[:20]!r} and this ncc reads format {version}: use the ncc that wrote "
                "it, or make it again with this one"
            )
        header.pop("sha256", None)
        again = packed_arrays(kind, header, arrays)
    except (SafetensorError, ConfigError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ResultError(f"{where} is no {kind} ({one_line(error)}): name another file, or {REMEDY}") from None
    if again != data:
        raise ResultError(f"{where} is damaged: it is not what its header and arrays make, byte for byte; {REMEDY}")
    return header, arrays


def one_line(text: object) -> str:
    """The first 400 characters of a text or an error, in one line and with control characters escaped."""
    line = " ".join(str(text).split())[:400]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
