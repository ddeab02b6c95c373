# SPDX-License-Identifier: BSD-3-Clause
"""Every command in a page is one that its program takes, with keys, names and files that exist."""

import re
import shlex
import shutil
from itertools import takewhile
from pathlib import Path

import pytest

from ncc.host.__main__ import parser
from ncc.run.controllers import controller_names, tuned_names
from tests.docs.quoted import blocks
from tests.house.files import ROOT, tracked
from tests.mains.commands import ncc

PAGES = sorted(path for path in tracked() if path.endswith(".md"))
COMPOSED = {"train", "evaluate", "league", "sweep", "serve", "report", "export"}
"""Verbs whose settings Hydra composes."""
OWN = {"aimd", "mine", "pooled", "sb3_pairs", "rllib_ppo", "rllib_marwil"}
"""Controllers that readers make on these pages."""
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """Words of each command in the shell blocks of a page; those with something to fill in are left out."""
    text = "\n".join(text for kind, text in blocks(page) if kind == "sh").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line.startswith(("ncc ", "make ", "python "))]
    return [shlex.split(line, comments=True) for line in lines if not re.search(r"<\w+>|\.\.\.", line)]


def files_of_readers(folder: Path) -> None:
    """Write what commands name: the files of docs/network.md and docs/agents/README.md, beside the examples."""
    shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
    kinds = dict(reversed(blocks("docs/network.md")))
    (folder / "my_network.yaml").write_text(kinds["yaml"])
    (folder / "my_sizes.csv").write_text(kinds["csv"])
    (folder / "my_configs/controllers").mkdir(parents=True)
    tutorial = [text for kind, text in blocks("docs/tutorial/README.md") if kind == "yaml"]
    (folder / "my_configs/scenario").mkdir()
    (folder / "my_configs/scenario/small_incast.yaml").write_text(tutorial[-1])


def refused(words: list[str], folder: Path) -> str:
    """Reason why a command would not start; empty if it would."""
    program, first, *rest = words
    if program == "make":
        return "" if first in TARGET.findall((ROOT / "Makefile").read_text()) else "no such target"
    if program == "python":
        file = rest[0].replace(".", "/") if first == "-m" else first
        places = (ROOT / f"{file}.py", ROOT / file, ROOT / "examples" / file)
        return "" if file == "pytest" or any(place.exists() for place in places) else "no such file"
    if first == "host" and not {"--help", "--config"} & set(rest):
        parser().parse_args(takewhile(lambda word: word not in ">|", rest))  # or ncc.core.errors.ConfigError
    composed = first in COMPOSED and any("=" in word for word in rest) and "-m" not in rest
    return _not_composed(first, rest, folder) if composed else ""


def _not_composed(verb: str, rest: list[str], folder: Path) -> str:
    named = {name for word in rest if word.startswith("controller=") for name in word[11:].split(",")}
    ours = {name for name in named if not re.search(r"[./:]", name)} - OWN - {"list"}
    if unknown := ours - {*controller_names(), *tuned_names()}:
        return f"no controllers: {unknown}"
    folders = () if "--config-dir" in rest else ("--config-dir", "my_configs")
    return ncc(verb, *folders, *rest, "--cfg", "job", cwd=folder).stderr


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_would_start(page: str, tmp_path: Path) -> None:
    files_of_readers(tmp_path)
    said = {shlex.join(words): refused(words, tmp_path) for words in commands(page)}
    assert {command: why for command, why in said.items() if why} == {}
