# SPDX-License-Identifier: BSD-3-Clause
"""Settings of every test: hypothesis counts examples, never seconds, because CI is slow at random."""

import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ncc", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ncc")

# A shell that runs the tests in the background has SIGINT ignored, and every process started here would inherit that:
# then Ctrl-C could not be tested.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start Ray come last: what it leaves open in this process would be counted as others' leaks."""
    items.sort(key=lambda item: item.get_closest_marker("rllib") is not None)
