# SPDX-License-Identifier: BSD-3-Clause
"""Policy files as the command makes them, and others that were changed and given their checksum anew."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.numpy

from ncc.policies.export import ExportSpec, export
from ncc.policies.file import Tensors, _packed, policy_file_from
from ncc.policies.header import KIND
from tests.host.policies import discrete


@cache
def packaged(policy: str) -> bytes:
    """The file of a packaged policy."""
    with TemporaryDirectory() as folder:
        return export(ExportSpec(policy=policy, out=str(Path(folder) / "policy.ncc"))).read_bytes()


@cache
def exported() -> bytes:
    """The file of a policy with a table of actions, which nobody trained."""
    return discrete(policy_file_from(packaged("ncc"), "x"))[0]


def tensors() -> Tensors:
    """Its weights, by name."""
    return safetensors.numpy.load(exported())


def header() -> dict[str, Any]:
    """Its header as plain data."""
    data = exported()
    length = int.from_bytes(data[:8], "little")
    found: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][KIND])
    del found["sha256"]
    return found


def with_header(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with its header changed in place by `change`."""
    plain = header()
    change(plain)
    return _packed(plain, tensors())


def with_tensors(**changes: Any) -> bytes:
    """The file with tensors replaced or added, or left out where they are None."""
    kept = {name: array for name, array in {**tensors(), **changes}.items() if array is not None}
    return _packed(header(), kept)


def with_metadata(metadata: dict[str, str] | None) -> bytes:
    """The file with other metadata."""
    return safetensors.numpy.save(dict(tensors()), metadata)
