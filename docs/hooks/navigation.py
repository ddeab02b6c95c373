# SPDX-License-Identifier: BSD-3-Clause
"""The navigation of mkdocs.yml, with each folder replaced by its pages."""

from collections.abc import Iterable, Mapping
from typing import Any

from docs.hooks import pages


def title_of(path: str) -> str:
    """The first heading of a document, without marks."""
    for line in (pages.ROOT / path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip().replace("`", "")
    raise ValueError(f"{path} has no heading: give it one in a line that begins with '# '")


def reference() -> list[Any]:
    """Packages and modules of the reference: a package's own page first, then packages, then its other modules."""
    tree: dict[str, Any] = {}
    for path, name in pages.modules().items():
        at = tree
        parts = name.split(".")[1:]
        for part in parts[:-1]:
            at = at.setdefault(part, {})
        if path.endswith("__init__.py"):
            (at.setdefault(parts[-1], {}) if parts else tree)[""] = pages.address(path, name)
        else:
            at[parts[-1]] = pages.address(path, name)

    def written(level: Mapping[str, Any], within: str) -> list[Any]:
        own = [level[""]] if "" in level else []
        inside = [
            {
                name if isinstance(to, str) else f"{within}.{name}": to
                if isinstance(to, str)
                else written(to, f"{within}.{name}")
            }
            for name, to in sorted(level.items(), key=lambda entry: (isinstance(entry[1], str), entry[0]))
            if name
        ]
        return own + inside

    listed = written(tree, "ncc")
    alone = [entry for entry in listed if isinstance(entry, dict) and isinstance(next(iter(entry.values())), str)]
    return [*(entry for entry in listed if entry not in alone), *([{"ncc, modules": alone}] if alone else [])]


def written_out(nav: Iterable[Any], addresses: Mapping[str, str]) -> list[Any]:
    """The entries of `nav`: one that ends in '/' becomes the pages below it, '*' those that no other entry names.

    Args:
        nav: as mkdocs.yml has it.
        addresses: path in the repository -> file name on the site.

    Returns:
        The navigation in mkdocs' form.
    """
    nav = list(nav)
    documents = {to: path for path, to in addresses.items() if path.endswith(".md")}
    named = set(_leaves(nav))
    folders = tuple(leaf for leaf in named if leaf.endswith("/"))

    def entries(folder: str) -> list[Any]:
        if folder == "reference/":
            return reference()
        inside = sorted(to for to in documents if to.startswith(folder) and to not in named)
        index = [to for to in inside if to in {f"{folder}README.md", f"{folder}index.md"}]
        return [{"Overview": to} for to in index] + [{title_of(documents[to]): to} for to in inside if to not in index]

    def rest() -> list[Any]:
        left = sorted(
            to for to in documents if to not in named and not to.startswith((*folders, "reference/", "source/"))
        )
        return [{title_of(documents[to]): to} for to in left]

    def one(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            ((title, below),) = entry.items()
            if isinstance(below, list):
                return [{title: [deeper for item in below for deeper in one(item)]}]
            return [{title: entries(below)}] if below.endswith("/") else [entry]
        return rest() if entry == "*" else [entry]

    return [deeper for entry in nav for deeper in one(entry)]


def _leaves(nav: Iterable[Any]) -> Iterable[str]:
    for entry in nav:
        below = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from _leaves(below) if isinstance(below, list) else [below]
