# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of what was learned are of the policy in the package."""

import re
from html import unescape
from pathlib import Path

import pytest

from docs import learned
from studies.learned import GROUPS
from tests.house.files import ROOT


@pytest.mark.parametrize("path", [learned.LIMITS, learned.FEATURES])
def test_a_picture_is_of_the_packaged_policy(path: Path) -> None:
    text = path.read_text()
    assert learned.drawn_from() in text, "draw it anew: python -m docs.learned"
    assert len(text) < 200_000


def test_the_page_shows_them_and_every_group_is_drawn() -> None:
    page = (ROOT / "docs/ncc/learning.md").read_text()
    assert re.findall(r"assets/(learned_\w+\.svg)", page) == [learned.LIMITS.name, learned.FEATURES.name]
    assert "python -m docs.learned" in page
    drawn = learned.FEATURES.read_text()
    assert not [name for name in GROUPS if name not in unescape(drawn)]
