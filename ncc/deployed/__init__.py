# SPDX-License-Identifier: BSD-3-Clause
"""Policy files for hosts: `load_policy_file` takes numpy and msgspec, nothing else."""

from ncc.deployed.file import SUFFIX, PolicyFile, load_policy_file, policy_file_from, policy_file_parts
from ncc.deployed.header import Origin, PolicyHeader
from ncc.deployed.limits import HeldLimiter, RateBounds, table_bounds

__all__ = [
    "SUFFIX",
    "HeldLimiter",
    "Origin",
    "PolicyFile",
    "PolicyHeader",
    "RateBounds",
    "load_policy_file",
    "policy_file_from",
    "policy_file_parts",
    "table_bounds",
]
