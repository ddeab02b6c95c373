# SPDX-License-Identifier: BSD-3-Clause
"""The layout of the repository: top level, links, and names of files in documents."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT, texts, tracked

TOP = {
    ".ci", ".clang-format", ".dockerignore", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CMakeLists.txt", "CONTRIBUTING.md", "Dockerfile", "LICENSES", "Makefile", "README.md", "agents", "baselines",
    "configs", "constraints.txt", "docs", "envs", "examples", "mkdocs.yml", "ncc", "pyproject.toml", "studies", "tests",
}  # fmt: skip
ALLOWED = TOP | {"notebooks"}
LINKED = ("agents", "baselines", "configs", "envs")


def test_the_top_level_is_what_it_is_meant_to_be() -> None:
    found = {path.split("/")[0] for path in tracked()}
    assert found >= TOP, f"missing: {sorted(TOP - found)}"
    assert found <= ALLOWED, f"not part of the house: {sorted(found - ALLOWED)}"


@pytest.mark.parametrize("name", LINKED)
def test_linked_packages_import_by_their_full_name_only(name: str) -> None:
    link = ROOT / "ncc" / name
    assert str(link.readlink()) == f"../{name}"
    assert not (ROOT / name).is_symlink()
    code = f"import ncc.{name}; print(ncc.{name}.__file__, flush=True); import {name}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert Path(ended.stdout.strip()).resolve() == ROOT / name / "__init__.py"
    assert f"ImportError: import this package as 'ncc.{name}', not as '{name}'" in ended.stderr


def test_a_changed_header_compiles_the_tables_alone() -> None:
    """All registered headers come by one generated file, which few files include: a simulator has dozens."""
    sources = {path: text for path, text in texts().items() if path.endswith((".h", ".cc", ".cpp"))}
    including = {path for path, text in sources.items() if '#include "ncc_controllers.h"' in text}
    assert including == {"baselines/binding.cpp", "envs/native/tables.cc", "tests/packetsim/fuzz/random_case.h"}


def test_every_folder_with_python_is_a_package() -> None:
    """The import contracts and the type checker see packages only; examples are scripts."""
    folders = {Path(path).parent for path in tracked() if path.endswith(".py") and not path.startswith("examples/")}
    folders = {parent for folder in folders for parent in (folder, *folder.parents) if parent != Path()}
    assert not [str(folder) for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()]


ROOTS = "|".join(sorted(re.escape(name) for name in ALLOWED))
GYM_ID = re.compile(r"-v\d+$")
PATH = re.compile(rf"(?<![\w./<*-])((?:\.\./)*(?:ncc/)?(?:{ROOTS})(?:/[\w.-]+)+)(?![\w/*<{{-])")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
MAIN = re.compile(r"python -m (ncc(?:\.\w+)+)")


@pytest.mark.parametrize("path", sorted(path for path in tracked() if path.endswith(".md")))
def test_documents_mention_existing_files_only(path: str) -> None:
    text = texts()[path]
    folder = (ROOT / path).parent
    mentioned = {found.rstrip(".") for found in PATH.findall(text) if not GYM_ID.search(found)}
    gone = {name for name in mentioned if not (ROOT / name).exists() and not (folder / name).exists()}
    gone |= {name for name in LINK.findall(text) if not (folder / name).exists()}
    mains = {name: ROOT / name.replace(".", "/") for name in MAIN.findall(text)}
    gone |= {
        name for name, at in mains.items() if not (at.with_suffix(".py").exists() or (at / "__main__.py").exists())
    }
    assert not gone, f"{path} names files that do not exist: {sorted(gone)}"


def test_make_targets_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", texts()["Makefile"], re.MULTILINE))
    for path, text in texts().items():
        if path.endswith(".md"):
            named = set(re.findall(r"`make ([a-z-]+)", text))
            assert named <= targets, f"{path}: no make target {sorted(named - targets)}"


def test_the_map_names_every_room() -> None:
    named = (ROOT / "docs/concepts/7-map.md").read_text()
    rooms = {path.rpartition("/")[0] for path in tracked() if re.fullmatch(r"(ncc|envs)/\w+/__init__\.py", path)}
    assert len([room for room in rooms if room.startswith("ncc/")]) <= 9
    assert not [room for room in rooms if f"| `{room}` |" not in named]
