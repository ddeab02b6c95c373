# SPDX-License-Identifier: BSD-3-Clause
"""Settings of every test: hypothesis counts examples, never seconds, because CI is slow at random."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ncc", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ncc")

# A shell that runs the tests in the background has SIGINT ignored, and every process started here would inherit that:
# then Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


HERE = Path(__file__).parent
ALONE = (HERE / "linux", HERE / "host")
"""Tests of the kernel's own TCP: one run at a time, in real time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what can't run beside other tests, and put tests that start Ray last.

    What Ray leaves open in this process would be counted as others' leaks.
    """
    for item in items:
        if item.get_closest_marker("rllib") or any(folder in item.path.parents for folder in ALONE):
            item.add_marker(pytest.mark.alone)
    items.sort(key=lambda item: item.get_closest_marker("rllib") is not None)
