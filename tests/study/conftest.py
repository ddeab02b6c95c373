# SPDX-License-Identifier: BSD-3-Clause
"""Files and state of the checkout that many tests need are read once: an edit meanwhile changes no verdict."""

import copy
from collections.abc import Generator
from functools import cache
from typing import Any

import pytest

import ncc.harness.manifest
import ncc.run.plan
import ncc.study.load
import ncc.study.points
from ncc.harness.manifest import git_state
from ncc.harness.pool import Processes
from ncc.run.compose import composed
from ncc.run.controllers import load_controller
from tests.support.here import Here


@pytest.fixture(autouse=True, scope="session")
def _read_once() -> Generator[None]:
    once = cache(composed)

    def copied(verb: str, overrides: list[str]) -> dict[str, Any]:
        return copy.deepcopy(once(verb, tuple(overrides)))

    with pytest.MonkeyPatch.context() as monkeypatch:
        for module in (ncc.study.load, ncc.run.plan):
            monkeypatch.setattr(module, "composed", copied)
        monkeypatch.setattr(ncc.study.points, "load_controller", cache(load_controller))
        monkeypatch.setattr(ncc.harness.manifest, "git_state", cache(git_state))
        yield


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let evaluations run here, which starts no process."""
    monkeypatch.setattr(Processes, "run", Here().run)
