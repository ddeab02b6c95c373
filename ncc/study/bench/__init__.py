# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks of speed, which `ncc bench` measures and prints. Most figures are ratios of two speeds in one run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

GROUPS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("groups.yaml").read_text(encoding="utf-8"))
