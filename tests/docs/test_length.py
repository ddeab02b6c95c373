# SPDX-License-Identifier: BSD-3-Clause
"""Pages stay short enough to be read: words outside blocks of code, without the bars of tables."""

import re

from tests.docs.quoted import BLOCK
from tests.house.files import texts

GENERATED = re.compile(r"docs/(experiments|agreement|learners)/|docs/(signals|environment)\.md")
MOST_BY_HAND, MOST_IN_README = 60_000, 600


def words(page: str) -> int:
    """Words of a page."""
    prose = re.sub(r"^[|: -]+$", "", BLOCK.sub("", texts()[page]), flags=re.MULTILINE)
    return len(prose.replace("|", " ").split())


def test_pages_by_hand_are_short() -> None:
    pages = [path for path in texts() if path.endswith(".md") and not GENERATED.match(path)]
    assert words("README.md") <= MOST_IN_README
    assert sum(map(words, pages)) <= MOST_BY_HAND
