# SPDX-License-Identifier: BSD-3-Clause
"""Links: those that authors write relative to files of the repository become links between pages of the site."""

import posixpath
import re
from collections.abc import Mapping
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from docs.hooks.pages import resolve

REMOTE = re.compile(r"[\w+.-]+:|//|/|#|$")
NAME = re.compile(r"ncc(?:\.\w+)+")
CLOSED = {"a", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "autoref"}
"""Elements in which names do not become links."""


class Links(Extension):
    """A Markdown extension for the links of a page; one object serves all pages, and `page` is set before each.

    Attributes:
        page: the page being rendered.
        path: its file, in the repository.
        addresses: path in the repository -> file name on the site (`src_uri`).
        files: all files of the site.
    """

    def __init__(self) -> None:
        super().__init__()
        self.page: Page | None = None
        self.path = ""
        self.addresses: Mapping[str, str] = {}
        self.files = Files([])

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name is Python-Markdown's
        # mkdocs resolves and checks links at priority 0: authors' links are rewritten before that, names are linked
        # after.
        md.treeprocessors.register(_Authored(self, md), "ncc_authored", 1)
        md.treeprocessors.register(_Named(self, md), "ncc_named", -1)

    def authored(self, url: str) -> str:
        """The address that mkdocs expects for the file that `url` names; `url` itself if it has no page."""
        if self.page is None or REMOTE.match(url):
            return url
        target, mark, anchor = url.partition("#")
        path = resolve(posixpath.dirname(self.path), target)
        address = self.addresses.get(path.rstrip("/")) if path is not None else None
        if address is None:
            return url
        return posixpath.relpath(address, posixpath.dirname(self.page.file.src_uri) or ".") + mark + anchor

    def named(self, text: str) -> Element | None:
        """Make a link around a name in code, if it names a file with a page or an object in the reference."""
        if self.page is None:
            return None
        address = self.addresses.get(resolve("", text.rstrip("/")) or "") if "/" in text or "." in text else None
        file = self.files.get_file_from_path(address) if address is not None else None
        if file is not None:
            return (
                Element("a", {"href": get_relative_url(file.url, self.page.file.url)})
                if file.url != self.page.url
                else None
            )
        if NAME.fullmatch(text):
            return Element("autoref", {"identifier": text, "optional": "optional"})
        return None


class _Authored(Treeprocessor):
    def __init__(self, links: Links, md: Markdown) -> None:
        super().__init__(md)
        self.links = links

    def run(self, root: Element) -> None:
        for element in root.iter():
            key = {"a": "href", "img": "src"}.get(element.tag)
            if key is not None and element.get(key):
                element.set(key, self.links.authored(element.get(key, "")))


class _Named(Treeprocessor):
    def __init__(self, links: Links, md: Markdown) -> None:
        super().__init__(md)
        self.links = links

    def run(self, root: Element) -> None:
        for place, child in enumerate(root):
            if child.tag in CLOSED:
                continue
            link = self.links.named(child.text or "") if child.tag == "code" and not len(child) else None
            if link is None:
                self.run(child)
                continue
            link.tail, child.tail = child.tail, None
            root[place] = link
            link.append(child)
