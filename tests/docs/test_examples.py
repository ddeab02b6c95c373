# SPDX-License-Identifier: BSD-3-Clause
"""Examples in pages print what the pages show."""

import doctest
import re
from pathlib import Path

import pytest

from tests.house.files import ROOT

SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if ">>> " in path.read_text()
)


def test_every_idea_has_a_page_with_an_example() -> None:
    listed = re.findall(r"^\d\. \[.*?\]\((.*?)\)", (ROOT / "docs/concepts/README.md").read_text(), re.MULTILINE)
    assert listed.pop() == "7-map.md", "the map has no example"
    assert {f"docs/concepts/{name}" for name in listed} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_sessions_print_what_they_say(page: str) -> None:
    """All of a page in one interpreter, in order, as a reader would type it."""
    text = (ROOT / page).read_text()
    sessions = SESSION.findall(text)
    assert sum(session.count(">>> ") for session in sessions) == text.count(">>> "), "outside ```pycon"
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, Path(page).name, page, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert not said, "".join(said)
