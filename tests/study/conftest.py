# SPDX-License-Identifier: BSD-3-Clause
"""Experiments on disk, which many tests load, are composed once."""

import copy
from collections.abc import Generator
from functools import cache
from typing import Any

import pytest

import ncc.study.load
from ncc.run.compose import composed


@pytest.fixture(autouse=True, scope="session")
def _composed_once() -> Generator[None]:
    once = cache(composed)

    def copied(verb: str, overrides: list[str]) -> dict[str, Any]:
        return copy.deepcopy(once(verb, tuple(overrides)))

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(ncc.study.load, "composed", copied)
        yield
