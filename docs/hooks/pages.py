# SPDX-License-Identifier: BSD-3-Clause
"""Which file of the repository is which page of the site.

Documents stay where a reader of the repository looks for them. The site takes them in from there: those outside docs/
under an address of their own, every public module as a page of the reference, and any other file that a document
speaks of as a page that shows its text, if it belongs to the repository: what else lies about is not published.
"""

import re
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from ncc.core.errors import NccError

ROOT = Path(__file__).resolve().parents[2]

OUTSIDE = {
    "README.md": "index.md",
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
SHOWN = ("agents", "baselines", "configs", "docs", "envs", "examples", "ncc", "notebooks", "tests", "LICENSES", ".ci")
"""Folders whose files a page may show. Nothing of build/, runs/ or .venv/ is, though it may lie there."""
AT_TOP = {".md", ".toml", ".txt", ".yml"}
"""Endings of files at the top that a page may show where no git says which belong to the repository."""
NO_TEXT = {".png", ".npz", ".parquet", ".so", ".pt", ".pyc", ".ncc"}

LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")
CODE = re.compile(r"(?<!`)`([\w./-]+)`(?!`)")


class PagesError(NccError):
    """A document speaks of a file that no page can show."""


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
    at, listed = ROOT / path, tracked(ROOT)
    known = path.partition("/")[0] in SHOWN if "/" in path else at.is_file()
    if listed is None:
        known = known and ("/" in path or at.suffix in AT_TOP)
    else:
        known = known and path.rstrip("/") in listed
    return known and at.exists() and at.suffix not in NO_TEXT and "__pycache__" not in path


@cache
def tracked(root: Path) -> frozenset[str] | None:
    """Every file that git has in its index, and their folders; None where `root` is no checkout (a source archive).

    Raises:
        PagesError: it is one, and git does not say.
    """
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "--no-optional-locks", "-C", str(root), "ls-files", "-z"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise PagesError(
            f"git does not say which files of {root} belong to the repository ({said}), and pages show no others: "
            "install git, or build the site from a source archive."
        ) from None
    files = [PurePosixPath(name) for name in listed.split("\0") if name]
    return frozenset(str(path) for file in files for path in (file, *file.parents))


def source_page(path: str) -> str:
    """Markdown that shows a file's text, or what a folder holds. Readers look here by link, so searches pass it by.

    Raises:
        PagesError: the file is no text.
    """
    at, listed = ROOT / path, tracked(ROOT)
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n# `{path}`\n\n"
    if at.is_dir():
        inside = [p for p in at.iterdir() if not p.name.startswith((".", "__pycache__"))]
        kept = [p for p in inside if listed is None or resolve(path, p.name) in listed]
        return head + "\n".join(sorted(f"- `{path}/{p.name}{'/' * p.is_dir()}`" for p in kept)) + "\n"
    try:
        text = at.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PagesError(
            f"a document speaks of {path}, which is no UTF-8 text ({error.reason} at byte {error.start}): save it as "
            f"such, or add {at.suffix or 'an ending of its own'} to NO_TEXT in docs/hooks/pages.py."
        ) from None
    try:
        language = get_lexer_for_filename(path, text).aliases[0]
    except ClassNotFound:
        language = "text"
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{head}{fence}{language}\n{text.rstrip()}\n{fence}\n"
