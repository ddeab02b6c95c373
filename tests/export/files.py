# SPDX-License-Identifier: BSD-3-Clause
"""Policy files as the command makes them, and others that were changed with all their checksums."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ncc.agents.export.container import SUMS, pack, sums_of, unpack
from ncc.deployed.file import HEADER
from ncc.export.source import ExportSpec
from ncc.export.write import export


@cache
def exported(policy: str = "ncc") -> bytes:
    """The file of a packaged policy."""
    with TemporaryDirectory() as folder:
        return export(ExportSpec(policy=policy, out=str(Path(folder) / "policy.ncc"))).read_bytes()


def with_parts(**parts: bytes | None) -> bytes:
    """The file with parts replaced, or left out where they are None; `__` in a name stands for the dot."""
    whole = unpack(exported(), "test")
    for name, data in parts.items():
        whole[name.replace("__", ".")] = data or b""
    kept = {
        name: data
        for name, data in whole.items()
        if name != SUMS and parts.get(name.replace(".", "__"), b"") is not None
    }
    return pack({**kept, SUMS: sums_of(kept)})


def header() -> dict[str, Any]:
    """Its header as plain data."""
    found: dict[str, Any] = json.loads(unpack(exported(), "test")[HEADER])
    return found


def with_header(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The file with its header changed in place by `change`."""
    plain = header()
    change(plain)
    return with_parts(policy__json=json.dumps(plain).encode())
