# SPDX-License-Identifier: BSD-3-Clause
"""The command ``ncc``: its verbs, its help, its version."""

import re
import sys

import pytest

import ncc
from ncc.cli.verbs import VERBS, sentence
from ncc.harness.manifest import provenance
from tests.house.files import ROOT
from tests.mains.commands import verb


def test_every_main_is_a_verb() -> None:
    files = [*(ROOT / "ncc").glob("*.py"), *(ROOT / "ncc").glob("*/__main__.py")]
    mains = {path.parent.name if path.name == "__main__.py" else path.stem
             for path in files if 'if __name__ == "__main__"' in path.read_text()}  # fmt: skip
    assert mains - {"ncc"} == set(VERBS)


def test_help_is_a_line_for_each_verb() -> None:
    for arguments in ((), ("--help",), ("-h",)):
        done = verb(*arguments)
        lines = done.stdout.splitlines()
        assert done.returncode == 0
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
        assert all(sum(line.split()[:1] == [name] for line in lines) == 1 for name in VERBS)
    assert all(sentence(name).endswith(".") for name in VERBS)


def test_an_unknown_verb_is_one_sentence() -> None:
    done = verb("trian")
    assert done.returncode == 2
    assert done.stderr.startswith("error: Unknown verb 'trian'. Did you mean 'train'? Known: agreement, bench")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--version",), ("train", "--version"), ("evaluate", "--version")])
def test_the_version_is_ours(arguments: tuple[str, ...]) -> None:
    commit = r"(, commit [0-9a-f]{10}( with changes)?)?"
    assert re.fullmatch(rf"ncc {re.escape(ncc.__version__)}{commit}, Python 3[.\d]+\n", verb(*arguments).stdout)


@pytest.mark.parametrize("name", ["host", "bench", "agreement"])
def test_parsers_call_themselves_by_the_verb(name: str) -> None:
    done = verb(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: ncc {name} ")
    assert sentence(name) in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (["/opt/venv/bin/ncc", "train", "out=my run"], "ncc train 'out=my run'"),
        (["-m", "ncc", "train", "seed=3"], "python -m ncc train seed=3"),
        (["-m", "ncc.train", "seed=3"], "python -m ncc.train seed=3"),
    ],
)
def test_a_manifest_says_what_was_typed(typed: list[str], command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["/opt/venv/bin/python", *typed])
    assert provenance()["command"] == command
