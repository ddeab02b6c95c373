# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on the agent of a host, each a test, and a table of them (`make attack`)."""

import re
from collections.abc import Iterable, Iterator

import pytest

MARKER = "attack"
"""Marker of such a test, with the ids of the attacks that it tries."""
OUTCOMES = {"passed": "repelled", "failed": "SUCCEEDS", "error": "SUCCEEDS", "skipped": "not tried"}
"""Outcome of an attack by the outcome of its test, the better first."""


def note(item: pytest.Item) -> None:
    """Let reports of a test have the ids of its attacks."""
    for mark in item.iter_markers(MARKER):
        item.user_properties.append((MARKER, " ".join(mark.args)))


def table(stats: dict[str, list[pytest.TestReport]]) -> Iterator[str]:
    """Yield a line for each test that tries attacks: ids, words of its name, number of its cases, and outcome."""
    found: dict[tuple[str, str], list[str]] = {}
    for outcome in OUTCOMES:
        for report in stats.get(outcome, []):
            for ids in _ids(report.user_properties):
                name = re.sub(r"\[.*", "", report.nodeid).rpartition("::test_")[2].replace("_", " ")
                found.setdefault((ids, name), []).append(outcome)
    for ids, name in sorted(found, key=lambda row: [int(part) for part in re.findall(r"\d+", row[0])]):
        outcomes = found[ids, name]
        worst = next(outcome for outcome in ("error", "failed", "skipped", "passed") if outcome in outcomes)
        cases = f" ({len(outcomes)} cases)" if len(outcomes) > 1 else ""
        yield f"{ids:<18}{OUTCOMES[worst]:<11}{name}{cases}"


def _ids(properties: Iterable[tuple[str, object]]) -> list[str]:
    return [str(value) for name, value in properties if name == MARKER]
