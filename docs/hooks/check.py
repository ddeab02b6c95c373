# SPDX-License-Identifier: BSD-3-Clause
"""Checks that strict mode lacks: every link of every built page, raw HTML included, and what pages load."""

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

TAG = re.compile(r"<([a-z]\w*)((?:\s+[\w:-]+(?:=(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?)+)\s*/?>")
ATTRIBUTE = re.compile(r"\s(href|src|srcset|id|name)=(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))")
LINKS = {"a", "area"}
"""Elements that lead elsewhere only when a reader follows them; all others load what they name."""


def problems(folder: Path) -> list[str]:
    """Return a sentence for each dead link and for each thing that a page would load from another server.

    Args:
        folder: a built site. Its error page is skipped, because it is served at any address.
    """
    anchors: dict[str, set[str]] = {}
    targets: dict[str, set[tuple[str, str]]] = {}
    for path in sorted(folder.rglob("*.html")):
        page = path.relative_to(folder).as_posix()
        if page != "404.html":
            anchors[page], targets[page] = _read(path.read_text(encoding="utf-8"))
    found = []
    for page, links in targets.items():
        for tag, url in sorted(links):
            said = _wrong(folder, anchors, page, tag, url)
            if said:
                found.append(f"The built page {page} {said}")
    return found


def _read(text: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Anchors of a page, and (tag, address) of everything that it links to or loads."""
    anchors, targets = set(), set()
    for tag, attributes in TAG.findall(text):
        for key, *values in ATTRIBUTE.findall(attributes):
            value = "".join(values).replace("&amp;", "&")
            if key == "id" or (key == "name" and tag == "a"):
                anchors.add(value)
            elif key in {"href", "src", "srcset"}:
                targets.add((tag, value))
    return anchors, targets


def _wrong(folder: Path, anchors: dict[str, set[str]], page: str, tag: str, url: str) -> str | None:
    parts = urlsplit(url)
    if parts.scheme in {"data", "mailto"}:
        return None
    if parts.scheme or parts.netloc:
        return None if tag in LINKS else f"loads {url} by <{tag}>: the site has to work without a network"
    path = unquote(parts.path)
    target = page
    if path:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if (folder / target).is_dir():
            target = posixpath.normpath(posixpath.join(target, "index.html"))
        if not (folder / target).is_file():
            return f"links to {url}, which does not exist"
    fragment = unquote(parts.fragment)
    if fragment and target in anchors and fragment not in anchors[target]:
        return f"links to {url}, where there is no such anchor"
    return None
