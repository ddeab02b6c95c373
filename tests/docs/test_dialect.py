# SPDX-License-Identifier: BSD-3-Clause
"""Documents mean the same on code hosts (CommonMark with tables) and on the site (Python-Markdown)."""

import re
from collections import Counter

import pytest
import yaml
from markdown import Markdown
from markdown_it import MarkdownIt

from docs.hooks.dialect import adapted
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
    return counted(Markdown(extensions=named, extension_configs={"toc": {"permalink": False}}).convert(adapted(text)))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_structure_is_the_same(path: str) -> None:
    text = (ROOT / path).read_text()
    assert on_the_site(text) == on_code_hosts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Then\n- one\n- two\n",
        "Then\n1. one\n2. two\n",
        "Then\n| a | b |\n| --- | --- |\n| 1 | 2 |\n",
        "```\nThen\n- no list\n```\n",
        "- one\n  goes on\n- two\n",
        "# Head\n- one\n",
        "On page\n- 5 is\n",
        "About\n1986. It was\n",
        "- one\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n  After it.\n- two\n",
    ],
)
def test_lists_and_tables_may_interrupt(text: str) -> None:
    assert on_the_site(text) == on_code_hosts(text)


def test_what_needs_no_line_gets_none() -> None:
    text = "a\n\n- b\n- c\n\n```\nd\n- e\n```\n\n| f | g |\n| - | - |\n| 1 | 2 |\n"
    assert adapted(text) == text
