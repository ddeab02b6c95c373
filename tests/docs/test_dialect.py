# SPDX-License-Identifier: BSD-3-Clause
"""Documents mean the same on code hosts (CommonMark with tables) and on the site (Python-Markdown).

Python-Markdown wants an empty line before a list and before a table.
"""

import re
from collections import Counter

import pytest
import yaml
from markdown import Markdown
from markdown_it import MarkdownIt

from docs.hooks.pages import outside
from tests.house.files import ROOT, tracked

DOCUMENTS = sorted(
    path for path in tracked() if path.endswith(".md") and (path.startswith("docs/") or path in outside())
)
COUNTED = ("h1", "h2", "h3", "h4", "ul", "ol", "li", "table", "tr", "td", "a", "img", "pre", "blockquote", "hr")


def counted(html: str) -> Counter[str]:
    html = re.sub(r"<!--.*?-->", "", html, flags=re.DOTALL)
    return Counter(tag for tag in re.findall(r"<(\w+)", html) if tag in COUNTED)


def on_code_hosts(text: str) -> Counter[str]:
    return counted(MarkdownIt("commonmark").enable("table").render(text))


def on_the_site(text: str) -> Counter[str]:
    settings = (ROOT / "mkdocs.yml").read_text().partition("markdown_extensions:\n")[2].partition("\n\n")[0]
    named = [next(iter(one)) if isinstance(one, dict) else one for one in yaml.safe_load(settings)]
    return counted(Markdown(extensions=named, extension_configs={"toc": {"permalink": False}}).convert(text))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_structure_is_the_same(path: str) -> None:
    text = (ROOT / path).read_text()
    assert on_the_site(text) == on_code_hosts(text), "is an empty line missing before a list or a table?"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_are_markdown_and_pages_load_nothing_from_elsewhere(path: str) -> None:
    """`make docs` checks links in Markdown only, and the site works without a network."""
    text = re.sub(r"^```.*?^```$|`[^`]*`", "", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"<(?:a|img|script|link|iframe|area)\b.*|!\[[^\]]*\]\(\w+:.*", text)
