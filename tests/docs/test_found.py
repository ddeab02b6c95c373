# SPDX-License-Identifier: BSD-3-Clause
"""Every page can be found: two clicks lead from the front page to it."""

import posixpath
import re

from docs.hooks.pages import resolve
from tests.house.files import texts

LINK = re.compile(r"\]\(([\w./-]+)")
FRONT = "README.md"


def linked(page: str) -> set[str | None]:
    """Pages and files that a page links to, by path from the root."""
    return {resolve(posixpath.dirname(page), target) for target in LINK.findall(texts().get(page, ""))}


def test_every_page_is_two_clicks_from_the_front_page() -> None:
    first = linked(FRONT)
    found = first.union(*(linked(page) for page in first if page))
    pages = {path for path in texts() if re.fullmatch(r"docs/.*\.md|notebooks/README\.md|[A-Z]+\.md", path)}
    assert sorted(pages - found - {FRONT}) == []
