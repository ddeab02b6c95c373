# SPDX-License-Identifier: BSD-3-Clause
"""The agent of a host loads numpy, msgspec, psutil, PyYAML and safetensors, and no package that only others need."""

import subprocess
import sys

from tests.host.agents import ROOT

HEAVY = (
    "torch", "ray", "hydra", "omegaconf", "gymnasium", "pettingzoo", "scipy", "pyarrow", "rich", "matplotlib", "onnx",
    "onnxruntime", "pyroute2", "asyncio", "http", "ns",
)  # fmt: skip


def test_nothing_heavy_is_imported() -> None:
    code = f"import sys, ncc.host.__main__, ncc.host.run; print(*({set(HEAVY)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
