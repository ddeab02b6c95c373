# SPDX-License-Identifier: BSD-3-Clause
"""The files of the repository that become pages of the site, and their addresses.

Documents stay where a reader of the repository looks for them. The site includes those outside docs/ under addresses of
their own, every public module as a page of the reference, and any other file that a document links to or names as a
page with its text, if git tracks it.
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
"""Documents outside docs/, by path in the repository, and their addresses on the site."""
CARDS = "baselines/cards"
LINKED = ("agents", "baselines", "envs")
"""Top-level packages that are imported through links inside ncc/."""
WORKSHOP = {"agreement", "bench"}
"""Packages that write reports about this repository and are not meant for import; only their commands are
documented."""
SHOWN = (
    "agents", "baselines", "configs", "docs", "envs", "examples", "ncc", "notebooks", "studies", "tests", "LICENSES",
    ".ci",
)  # fmt: skip
"""Folders whose files a page may show; build/, runs/ and .venv/ are never shown."""
AT_TOP = {".md", ".toml", ".txt", ".yml"}
"""Suffixes of top-level files that a page may show where git cannot list the tracked files."""
NO_TEXT = {".png", ".parquet", ".so", ".pt", ".pyc", ".ncc"}

LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")
CODE = re.compile(r"(?<!`)`([\w./-]+)`(?!`)")


class PagesError(NccError):
    """A document names a file that no page can show."""


def outside() -> dict[str, str]:
    """Addresses on the site, by path in the repository, of documents outside docs/, cards included."""
    cards = {f"{CARDS}/{path.name}": f"cards/{path.name}" for path in sorted((ROOT / CARDS).glob("*.md"))}
    return OUTSIDE | cards


def modules() -> dict[str, str]:
    """Dotted names, by path in the repository, of the modules that the reference describes.

    It describes what other programs may import: no names with a leading underscore, no mains, none of `WORKSHOP`.
    """
    found = {}
    for path in sorted([*(ROOT / "ncc").rglob("*.py"), *(p for name in LINKED for p in (ROOT / name).rglob("*.py"))]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] == "ncc" else ("ncc", *parts)
        package = parts[:-1] if parts[-1] == "__init__" else parts
        private = any(part.startswith("_") for part in package)
        if not private and not WORKSHOP & set(package[1:3]) and (path.parent / "__init__.py").exists():
            found[path.relative_to(ROOT).as_posix()] = ".".join(package)
    # Where links are followed, files were found twice: keep each under its own name only.
    return {path: name for path, name in found.items() if not path.startswith(tuple(f"ncc/{at}/" for at in LINKED))}


def address(path: str, name: str) -> str:
    """The address on the site of the reference of module `name`, whose file is `path`."""
    package = name.split(".")[1:]
    return "/".join(["reference", *package, "index.md"]) if path.endswith("__init__.py") else f"{name_of(package)}.md"


def name_of(parts: list[str]) -> str:
    """The address of a module below ncc, without its suffix. A module called index would replace its package's page."""
    return "/".join(["reference", *parts[:-1], "index_" if parts[-1] == "index" else parts[-1]])


def mentioned(text: str, folder: str) -> set[str]:
    """Paths, relative to the repository's root, that a document in `folder` links to or names in code."""
    linked = {resolve(folder, target) for target in LINK.findall(text)}
    return {path for path in linked | set(CODE.findall(text)) if path is not None and shown(path)}


def resolve(folder: str, target: str) -> str | None:
    """`target`, relative to `folder`, as a path from the root; None if it lies outside the repository."""
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
    """True if a page may show the content of this file or folder of the repository."""
    at, listed = ROOT / path, tracked(ROOT)
    known = path.partition("/")[0] in SHOWN if "/" in path else at.is_file()
    if listed is None:
        known = known and ("/" in path or at.suffix in AT_TOP)
    else:
        known = known and path.rstrip("/") in listed
    return known and at.exists() and at.suffix not in NO_TEXT and "__pycache__" not in path


@cache
def tracked(root: Path) -> frozenset[str] | None:
    """All files in git's index, and their folders; None if `root` is not a checkout (a source archive).

    Raises:
        PagesError: it is a checkout, but git fails.
    """
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "--no-optional-locks", "-C", str(root), "ls-files", "-z"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise PagesError(
            f"git cannot list the files of {root} ({said}), and pages show only those: "
            "install git, or build the site from a source archive."
        ) from None
    files = [PurePosixPath(name) for name in listed.split("\0") if name]
    return frozenset(str(path) for file in files for path in (file, *file.parents))


def source_page(path: str) -> str:
    """Markdown that shows a file's text or lists a folder. Searches skip it, because readers come by link.

    Raises:
        PagesError: the file is not text.
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
            f"a document names {path}, which is not UTF-8 text ({error.reason} at byte {error.start}): save it as "
            f"such, or add {at.suffix or 'an ending of its own'} to NO_TEXT in docs/hooks/pages.py."
        ) from None
    try:
        language = get_lexer_for_filename(path, text).aliases[0]
    except ClassNotFound:
        language = "text"
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{head}{fence}{language}\n{text.rstrip()}\n{fence}\n"
