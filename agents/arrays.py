# SPDX-License-Identifier: BSD-3-Clause
"""Named arrays and a JSON description in one `.npz` file: no pickle, so a file can hold data only, never code."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError, ResultError
from ncc.harness.atomic import replacing

Arrays = dict[str, npt.NDArray[Any]]

_META = "meta"
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    KeyError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
"""Errors that zipfile, numpy and json raise for damaged bytes."""


def write_arrays(
    path: Path, kind: str, version: int, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Write the file in one step; `meta` gets the keys `kind` and `version`.

    Raises:
        ConfigError: `meta` is not JSON, or an array holds Python objects.
        ResultError: the file system refused.
    """
    try:
        text = json.dumps({**meta, "kind": kind, "version": version}, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"meta of {path} must be plain JSON (text, finite numbers, lists, dicts): {error}") from None
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects or _META in arrays:
        raise ConfigError(
            f"arrays of {path} must be plain numbers and none may be called {_META!r}, got {sorted(arrays)}"
        )
    with replacing(path) as temporary, temporary.open("wb") as file:
        members: Arrays = {_META: np.frombuffer(text.encode(), dtype=np.uint8), **arrays}
        np.savez(file, allow_pickle=False, **members)


def read_arrays(path: Path, kind: str, version: int) -> tuple[Arrays, dict[str, Any]]:
    """Read a file back, checking every byte against its checksum.

    Raises:
        ResultError: missing, truncated, damaged, of another kind or of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {name.removesuffix(".npy"): _member(archive.read(name)) for name in archive.namelist()}
        meta = json.loads(arrays.pop(_META).tobytes())
    except FileNotFoundError:
        raise ResultError(f"there is no {kind} at {path}; name a run that has written one") from None
    except OSError as error:
        raise ResultError(
            f"cannot read the {kind} {path}: {error.strerror or error}; check that it is a readable file"
        ) from error
    except _BROKEN as error:
        raise ResultError(
            f"{path} is damaged or not an {kind} file ({error}); take another one or make it again"
        ) from None
    if not isinstance(meta, dict) or meta.get("kind") != kind:
        found = meta.get("kind") if isinstance(meta, dict) else None
        raise ResultError(f"{path} must be an {kind} file, but says it is {found!r}; name another file")
    if meta.get("version") != version:
        raise ResultError(
            f"{path} has format version {meta.get('version')!r} of {kind}, this ncc reads version {version}; "
            "use the ncc that wrote it or make the file again"
        )
    return arrays, meta


def _member(data: bytes) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return array
