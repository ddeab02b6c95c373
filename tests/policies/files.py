# SPDX-License-Identifier: BSD-3-Clause
"""Policy files as the command makes them, and others that were changed and given their checksum anew."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import safetensors.numpy

from ncc.agents.arrays import packed_arrays
from ncc.agents.policy import KIND, FloatArray32, packaged_names, packaged_policy
from ncc.policies.file import policy_file_from
from tests.host.policies import discrete

HOST_POLICIES = tuple(name for name in packaged_names() if name != "auto")
"""Packaged policies that hosts can run; `auto` sets thresholds of switches' classes."""


@cache
def exported() -> bytes:
    """The file of a policy with a table of actions, which nobody trained."""
    return discrete(policy_file_from(packaged_policy("ncc").read_bytes(), "x"))[0]


def tensors() -> dict[str, FloatArray32]:
    """Its weights, by name."""
    found: dict[str, FloatArray32] = safetensors.numpy.load(exported())
    return found


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
    return packed_arrays(KIND, plain, tensors())


def with_tensors(**changes: Any) -> bytes:
    """The file with tensors replaced or added, or left out where they are None."""
    kept = {name: array for name, array in {**tensors(), **changes}.items() if array is not None}
    return packed_arrays(KIND, header(), kept)


def with_metadata(metadata: dict[str, str] | None) -> bytes:
    """The file with other metadata."""
    return safetensors.numpy.save(dict(tensors()), metadata)
