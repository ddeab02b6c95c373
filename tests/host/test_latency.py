# SPDX-License-Identifier: BSD-3-Clause
"""The page of the agent's latency: a row for each case that was measured, of the figures beside it."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from ncc.core.errors import ConfigError
from ncc.host.latency import CASES, DOCS, HEADINGS, PAGE, RESULTS, SCHEDULINGS, latency, table
from ncc.host.page import put

ROOT = Path(__file__).parents[2]


def test_the_page_shows_the_figures_that_lie_beside_it() -> None:
    results = json.loads((ROOT / DOCS / RESULTS).read_text())
    page = (ROOT / DOCS / PAGE).read_text()
    assert put(page, "latency", table(results)) == page
    assert [(row["hosts"], row["peers"], row["scheduling"]) for row in results["rows"]] == [
        (hosts, peers, scheduling) for hosts, peers in CASES for scheduling in SCHEDULINGS
    ]
    for row in results["rows"]:
        assert row["periods"] > 5000
        assert row["hand_backs"] == row["stale_peers"] == 0
        assert row["connections"] == 2 * row["hosts"]
        assert 0 < row["took_us"]["p50"] <= row["took_us"]["p99"] <= row["took_us"]["p99.9"] <= row["took_us"]["max"]
    rows = re.findall(r"^\|.*\|$", table(results), re.MULTILINE)
    assert {row.count("|") for row in rows} == {len(HEADINGS) + 1}


def test_a_page_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ncc.envs.linux.machine.require", lambda: None)
    with pytest.raises(ConfigError, match="is not here: measure in the root of a checkout"):
        latency(Console(), tmp_path, quick=True)
