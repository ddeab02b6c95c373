# SPDX-License-Identifier: BSD-3-Clause
"""Judging without its pictures, but in test_surroundings.py and by processes of their own."""

import pytest


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no flows: of short runs that takes most of the time."""
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
