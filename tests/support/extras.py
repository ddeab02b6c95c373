# SPDX-License-Identifier: BSD-3-Clause
"""Tests of an extra that is not installed skip by its name, and are counted."""

import re

import pytest

from ncc.core.extras import EXTRAS, is_installed

SENTENCE = re.compile(r"not installed here: pip install .* \(the extra (\w+)\)")
MODULE = re.compile(r"No module named '(\w+)[\w.]*'")
ABSENT = {extra for extra, modules in EXTRAS.items() if not all(map(is_installed, modules))}


def needs_extra(extra: str) -> pytest.MarkDecorator:
    """Mark for a test (or `pytestmark`) that runs only with an extra, where it would not fail by asking for it."""
    return pytest.mark.skipif(extra in ABSENT, reason=f"the extra {extra} is not installed")


def lacking(text: str) -> str | None:
    """The reason to skip for what an error says; None where it is about nothing that an extra would bring."""
    if (named := SENTENCE.search(text)) and named[1] in ABSENT:
        return f"the extra {named[1]} is not installed"
    if module := MODULE.search(text):
        for extra in sorted(ABSENT):
            if module[1] in {name.partition(".")[0] for name in EXTRAS[extra]}:
                return f"the extra {extra} is not installed"
    return None


def skip(report: pytest.CollectReport | pytest.TestReport, reason: str | None) -> None:
    """Turn the report of an error into that of a skipped test, if there is a reason to."""
    if reason:
        report.outcome, report.longrepr = "skipped", (report.nodeid.partition("::")[0], 0, f"Skipped: {reason}")
