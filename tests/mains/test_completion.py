# SPDX-License-Identifier: BSD-3-Clause
"""Completions of the last word of a command line, and shells that ask for them."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncc.cli.completion import BASH, SCRIPTS, candidates
from tests.mains.commands import verb


@pytest.mark.parametrize(
    ("line", "all_of", "none_of"),
    [
        ("ncc ", {"train ", "evaluate ", "--version "}, {"ncc "}),
        ("ncc tr", {"train "}, {"evaluate "}),
        ("ncc host ", {"run ", "uplink ", "check "}, {"--help "}),
        ("ncc train sc", {"scenario", "scenario."}, {"schema/", "seed="}),
        ("ncc train se", {"seed="}, {"scenario."}),
        ("ncc train scenario=in", {"scenario=incast "}, {"scenario=rack "}),
        ("ncc train scenario=incast scenario.topology.", {"scenario.topology.senders="}, {"scenario.topology.hosts="}),
        ("ncc train recipe=ncc_sh", {"recipe=ncc_short "}, {"recipe=ncc "}),
        ("ncc evaluate experiment=dctcp_q", {"experiment=dctcp_queue "}, {"experiment=ncc_short "}),
        ("ncc evaluate controller=", {"controller=list ", "controller=dctcp "}, set()),
        ("ncc evaluate controller=[dctcp,cu", {"controller=[dctcp,cubic"}, {"controller=[dctcp,dctcp"}),
        ("ncc evaluate ", {"experiment=", "table="}, {"agent="}),
        ("ncc evaluate run=", {"run=runs/done "}, {"run=runs/begun "}),
        ("ncc train resume=runs/b", {"resume=runs/begun "}, set()),
        ("ncc export policy=n", {"policy=ncc "}, set()),
    ],
)
def test_words_that_may_follow(
    line: str, all_of: list[str], none_of: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, file in (("done", "manifest.json"), ("begun", "config.json")):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / file).touch()
    monkeypatch.chdir(tmp_path)
    found = set(candidates(line))
    assert found.issuperset(all_of)
    assert found.isdisjoint(none_of)


@pytest.mark.parametrize("line", ["ncc nonsense x", "ncc host policy", "ncc train nonsense.x="])
def test_what_only_the_shell_knows_is_left_to_it(line: str) -> None:
    assert candidates(line) == []


REPLIES = [
    ("ncc eval", ["evaluate "]),
    ("ncc train scenario=inc", ["incast "]),
    ("ncc train scenario.topo", ["scenario.topology."]),
]


def bash_completes(line: str, ncc: str) -> "subprocess.CompletedProcess[str]":
    """Complete as bash does: words are broken at =, and the reply stands for what follows the last one."""
    words = line.replace("=", " = ").split()
    broken = f"COMP_WORDS=({' '.join(map(repr, words))}) COMP_CWORD={len(words) - 1}"
    asked = (
        f"ncc() {{ {ncc}; }}\n{BASH}\n"
        f"COMP_LINE={line!r} COMP_POINT={len(line)} {broken}\n"
        "complete -p ncc >&2; _ncc ncc; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    return subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(("line", "reply"), REPLIES)
def test_bash_replies_with_what_follows_the_last_break(line: str, reply: list[str]) -> None:
    printed = shlex.join(["printf", r"%s\n", *candidates(line)])
    done = bash_completes(line, f'[ "$1 $2" = {shlex.quote(f"--complete {line}")} ] && {printed}')
    assert "-F _ncc ncc" in done.stderr
    assert done.stdout.splitlines() == reply


def test_bash_asks_the_command() -> None:
    line, reply = REPLIES[1]
    assert bash_completes(line, f'{sys.executable} -m ncc "$@"').stdout.splitlines() == reply


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes(tmp_path: Path) -> None:
    """The function as zsh's bashcompinit calls it: words are not broken."""
    line = "ncc train scenario=inc"
    function = SCRIPTS["zsh"].partition("_ncc()")[2].partition("complete -o")[0]
    asked = (
        f'ncc() {{ {sys.executable} -m ncc "$@"; }}\n_ncc(){function}\n'
        f"COMP_LINE={line!r} COMP_POINT={len(line)}\n_ncc ncc; print -l -- $COMPREPLY"
    )
    done = subprocess.run(["zsh", "-f", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "scenario=incast \n"


def test_the_script_is_printed_for_shells_that_have_one() -> None:
    assert verb("--completion", "bash").stdout == BASH
    assert "bashcompinit" in verb("--completion", "zsh").stdout
    done = verb("--completion", "fish")
    assert done.returncode == 2
    assert "exists for bash and zsh" in done.stderr
