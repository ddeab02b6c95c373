# SPDX-License-Identifier: GPL-2.0-only
# What is here beside ncc.envs.native.extension.Extension.
from typing import Any

from ncc.envs.native.extension import Spec

def run_plain(spec: Spec, stop_ns: int, measure_queues: bool = False) -> dict[str, Any]: ...
