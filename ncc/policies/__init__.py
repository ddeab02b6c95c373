# SPDX-License-Identifier: BSD-3-Clause
"""Policy files for hosts; reading one needs no training framework."""

from ncc.policies.file import PolicyFile, load_policy_file
from ncc.policies.limits import HeldLimiter, PolicyLimiter, RateBounds, table_bounds

__all__ = ["HeldLimiter", "PolicyFile", "PolicyLimiter", "RateBounds", "load_policy_file", "table_bounds"]
