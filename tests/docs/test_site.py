# SPDX-License-Identifier: BSD-3-Clause
"""A small repository with our hooks: what becomes of files and links, and that nothing broken is built."""

import logging
import re
import subprocess
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from docs.hooks import pages
from docs.hooks.figures import FiguresError
from tests.house.files import ROOT

MODULE = '''# SPDX-License-Identifier: BSD-3-Clause
"""A module."""


def halved(width_s: float) -> float:
    """Half of it; see `envs/wire.h` and `ncc.thing.halved`.

    Args:
        width_s: how wide.
    """
    return width_s / 2
'''
HOME = """# Home

What `ncc/thing.py` and [the wire](envs/wire.h) do is in the [card](baselines/cards/reno.md#equations), and
`ncc.thing.halved` halves. Then

- [guide](docs/guide/README.md),
- [how](CONTRIBUTING.md).
"""
FILES = {
    "README.md": HOME,
    "CONTRIBUTING.md": "# How\n",
    "CHANGELOG.md": "# When\n",
    "notebooks/README.md": "# Notebooks\n",
    "baselines/cards/reno.md": "# Reno\n\n## Equations\n\nNone, says [home](../../README.md).\n",
    "docs/guide/README.md": "# Guide\n",
    "envs/wire.h": "int wire; /* a link: [no](where.md) */\n",
    "ncc/__init__.py": '"""All."""\n',
    "ncc/thing.py": MODULE,
    "ncc/_hidden.py": '"""Nobody\'s."""\n',
    "ncc/bench/__init__.py": '"""A workshop."""\n',
}
NAV = """nav:
  - Home: index.md
  - "*"
  - Cards: cards/
  - Reference: reference/
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files, and the site's own mkdocs.yml with a navigation that they have pages for."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[0]
    settings = settings.replace("docs/hooks/site.py", str(ROOT / "docs/hooks/site.py"))
    settings = settings.replace("extra_css: [assets/site.css]\n", "")
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\n{NAV}")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    return tmp_path


def built(repository: Path) -> Path:
    build(load_config(str(repository / "mkdocs.yml"), strict=True))
    return repository / "build/site"


def hrefs(page: Path) -> set[str]:
    return set(re.findall(r'<a[^>]* href="([^"]*)"', page.read_text().partition('<article class="md-content')[2]))


def test_files_from_everywhere_become_pages_that_link_to_each_other(repository: Path) -> None:
    site = built(repository)
    assert {
        "reference/thing/",
        "source/envs/wire.h/",
        "cards/reno/#equations",
        "reference/thing/#ncc.thing.halved",
        "guide/",
        "contributing/",
    } <= hrefs(site / "index.html")
    assert "../../" in hrefs(site / "cards/reno/index.html")
    assert "int wire" in re.sub("<[^>]*>", "", (site / "source/envs/wire.h/index.html").read_text())
    reference = (site / "reference/thing/index.html").read_text()
    assert "how wide" in reference
    assert "../../source/envs/wire.h/" in hrefs(site / "reference/thing/index.html")
    searched = (site / "search/search_index.json").read_text()
    assert "how wide" in searched
    assert "return width_s / 2" in re.sub("<[^>]*>", "", reference)
    assert "return width_s" not in searched
    assert "int wire" not in searched
    assert not (site / "reference/_hidden").exists()
    assert not (site / "reference/bench").exists()
    assert (site / "index.html").read_text().partition("<article")[2].count("<li>") == 2


def test_what_git_does_not_track_is_not_published(repository: Path) -> None:
    """A policy file of the tutorial, a note and a built object lie where documents speak of them."""
    said = "`policy.ncc`, `notes.md`, `pyproject.toml`, `envs/wire.h`, `envs/scratch.h` and `envs/`."
    (repository / "README.md").write_text(f"# All of it\n\n{said}\n")
    (repository / "policy.ncc").write_bytes(b"PK\3\4\xba\xff")
    (repository / "pyproject.toml").write_text("[project]\n")
    site = built(repository)
    assert (site / "source/pyproject.toml/index.html").exists(), "a source archive has no git"
    assert not (site / "source/policy.ncc").exists()
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    (repository / "notes.md").write_bytes(b"\xff not for anybody")
    (repository / "envs/scratch.h").write_text("int scratch;\n")
    site = built(repository)
    shown = {page.parent.relative_to(site / "source").as_posix() for page in (site / "source").rglob("index.html")}
    assert shown == {"pyproject.toml", "envs/wire.h", "envs"}
    assert "scratch" not in (site / "source/envs/index.html").read_text()


def test_a_file_that_is_no_text_is_named(repository: Path) -> None:
    (repository / "envs/wire.h").write_bytes(b"int wire; /* \xff */")
    with pytest.raises(pages.PagesError, match=r"names envs/wire.h, which is not UTF-8 text \(invalid start byte at"):
        built(repository)


BROKEN = {
    "a document that is gone": ("README.md", "[x](docs/GONE.md)", "'docs/GONE.md', but the target is not found"),
    "a source that is gone": ("docs/guide/README.md", "[x](../../envs/gone.h)", "'../../envs/gone.h'"),
    "what lies outside": ("README.md", "[x](../secret.md)", "'../secret.md'"),
    "an anchor": ("README.md", "[x](baselines/cards/reno.md#gone)", "#gone"),
    "an anchor of a module": ("README.md", "[x](ncc/thing.py#ncc.thing.gone)", "#ncc.thing.gone"),
    "a docstring": ("ncc/thing.py", 'def f() -> None:\n    """F.\n\n    Args:\n        gone: x.\n    """\n', "'gone'"),
}


def test_nothing_broken_is_built(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text, _ in BROKEN.values():
        with (repository / name).open("a") as file:
            file.write(f"\n\n{text}\n")
    with caplog.at_level(logging.WARNING), pytest.raises(Abort, match="in strict mode"):
        built(repository)
    told = [record.getMessage() for record in caplog.records]
    assert [what for what, (_, _, said) in BROKEN.items() if not any(said in each for each in told)] == []


def test_figures_that_there_are_none_of_end_the_build(repository: Path) -> None:
    (repository / "README.md").write_text("# Home\n\n<!-- figures: hopes -->\n")
    with pytest.raises(FiguresError, match=r"index.md asks for figures 'hopes'; there are agreement, "):
        built(repository)
