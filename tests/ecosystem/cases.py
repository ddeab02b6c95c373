# SPDX-License-Identifier: BSD-3-Clause
"""Environments and settings of these tests."""

from typing import Any

import ncc  # noqa: F401 - registers
from tests.envs.cases import poisson, rack

LENGTH = 10
"""Steps of an episode."""
TINY = rack(poisson(), periods=LENGTH)
SETTINGS: dict[str, Any] = {"scenario": TINY}
IDS = ("ncc/Rack-v0", "ncc/RackBox-v0", "ncc/RackOne-v0")
