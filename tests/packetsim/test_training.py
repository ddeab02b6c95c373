# SPDX-License-Identifier: BSD-3-Clause
"""The runs by which a compiler learns packetsim's ways need nothing but Python and the module."""

import subprocess
import sys
from pathlib import Path

import ncc.envs.packetsim
from ncc.envs.packetsim import PacketsimDatapath


def test_training_runs_without_ncc() -> None:
    training = Path(ncc.envs.packetsim.__file__).with_name("training.py")
    module = PacketsimDatapath.extension().__file__
    subprocess.run([sys.executable, "-S", "-E", "-I", str(training), module], check=True, cwd="/")
