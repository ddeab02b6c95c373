# SPDX-License-Identifier: BSD-3-Clause
"""Judging without its pictures."""

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no flows: of short runs that takes most of the time."""
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
