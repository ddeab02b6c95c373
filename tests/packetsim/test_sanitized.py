# SPDX-License-Identifier: BSD-3-Clause
"""The engine in random networks under AddressSanitizer and UndefinedBehaviorSanitizer: tests/packetsim/fuzz/fuzz.cc."""

import subprocess
from pathlib import Path

import pytest

from tests.packetsim.sanitized import SANITIZERS, build, missing_runtime

pytestmark = pytest.mark.checkout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if why := missing_runtime(tmp_path_factory.mktemp("probe")):
        pytest.skip(f"the compiler has no runtime for {SANITIZERS}: {why}")
    return build()


def fuzz(program: Path, *args: int) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_wrong_in_random_networks(program: Path) -> None:
    assert fuzz(program, 1, 12).startswith("12 networks, nothing wrong")


def test_threads_change_nothing(program: Path) -> None:
    assert fuzz(program, 5000, 3, 1) == fuzz(program, 5000, 3, 3)
