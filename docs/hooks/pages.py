# SPDX-License-Identifier: BSD-3-Clause
"""Which file of the repository is which page of the site.

Documents stay where a reader of the repository looks for them. The site takes them in from there: those outside docs/
under an address of their own, every public module as a page of the reference, and any other file that a document
speaks of as a page that shows its text.
"""

import re
from pathlib import Path, PurePosixPath

from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "notebooks/README.md": "notebooks.md",
}
"""Documents outside docs/, by path in the repository, and where the site shows them."""
CARDS = "baselines/cards"
LINKED = ("agents", "baselines", "envs")
"""Packages that lie at the top and are imported through links inside ncc/."""
WORKSHOP = {"agreement", "bench", "learners", "matrix"}
"""Packages that write reports of this repository and are nobody's library: documented by their commands alone."""
SHOWN = ("agents", "baselines", "configs", "docs", "envs", "ncc", "notebooks", "tests", "LICENSES", ".ci")
"""Folders whose files a page may show. Nothing of build/, runs/ or .venv/ is, though it may lie there."""
NO_TEXT = {".png", ".npz", ".parquet", ".so", ".pt", ".pyc"}

LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")
CODE = re.compile(r"(?<!`)`([\w./-]+)`(?!`)")


def outside() -> dict[str, str]:
    """Path in the repository -> address on the site, of documents that lie outside docs/, cards included."""
    cards = {f"{CARDS}/{path.name}": f"cards/{path.name}" for path in sorted((ROOT / CARDS).glob("*.md"))}
    return OUTSIDE | cards


def modules() -> dict[str, str]:
    """Path in the repository -> dotted name, of every module that the reference describes.

    Public is what another program may import: no name that begins with an underscore, no main, none of `WORKSHOP`.
    """
    found = {}
    for path in sorted([*(ROOT / "ncc").rglob("*.py"), *(p for name in LINKED for p in (ROOT / name).rglob("*.py"))]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "ncc" else ("ncc", *parts)
        package = parts[:-1] if parts[-1] == "__init__" else parts
        private = any(part.startswith("_") for part in package)
        if not private and not WORKSHOP & set(package[1:2]) and (path.parent / "__init__.py").exists():
            found[path.relative_to(ROOT).as_posix()] = ".".join(package)
    # Where links are followed, their files were met twice: under their own name only.
    return {path: name for path, name in found.items() if not path.startswith(tuple(f"ncc/{at}/" for at in LINKED))}


def address(path: str, name: str) -> str:
    """Where the reference describes module `name`, which lies at `path`."""
    package = name.split(".")[1:]
    return "/".join(["reference", *package, "index.md"]) if path.endswith("__init__.py") else f"{name_of(package)}.md"


def name_of(parts: list[str]) -> str:
    """Of a module below ncc, as an address. A module called index would take its package's place."""
    return "/".join(["reference", *parts[:-1], "index_" if parts[-1] == "index" else parts[-1]])


def mentioned(text: str, folder: str) -> set[str]:
    """Paths in the repository, relative to its root, that a document in `folder` links to or names in code."""
    linked = {resolve(folder, target) for target in LINK.findall(text)}
    return {path for path in linked | set(CODE.findall(text)) if path is not None and shown(path)}


def resolve(folder: str, target: str) -> str | None:
    """`target`, relative to `folder`, as a path from the root; None where it leads out of the repository."""
    parts: list[str] = []
    for part in PurePosixPath(folder, target).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    if len(parts) > 1 and parts[0] == "ncc" and parts[1] in (*LINKED, "configs"):
        parts = parts[1:]
    return "/".join(parts)


def shown(path: str) -> bool:
    """Whether this is a file or folder of the repository whose content a page may show."""
    at = ROOT / path
    known = path.partition("/")[0] in SHOWN if "/" in path else at.is_file()
    return known and at.exists() and at.suffix not in NO_TEXT and "__pycache__" not in path


def source_page(path: str) -> str:
    """Markdown that shows a file's text, or what a folder holds. Readers look here by link, so searches pass it by."""
    at = ROOT / path
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n# `{path}`\n\n"
    if at.is_dir():
        inside = sorted(p.name + "/" * p.is_dir() for p in at.iterdir() if not p.name.startswith((".", "__pycache__")))
        return head + "\n".join(f"- `{path}/{name}`" for name in inside) + "\n"
    text = at.read_text(encoding="utf-8")
    try:
        language = get_lexer_for_filename(path, text).aliases[0]
    except ClassNotFound:
        language = "text"
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{head}{fence}{language}\n{text.rstrip()}\n{fence}\n"
