# SPDX-License-Identifier: BSD-3-Clause
"""The command ``ncc``: its verbs, its help, its version."""

import re
import subprocess
import sys

import pytest

import ncc
from ncc.__main__ import main
from ncc.harness.manifest import provenance
from ncc.verbs import VERBS, sentence
from tests.house.files import ROOT


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of `ncc <arguments>`, in this process."""
    monkeypatch.setattr(sys, "argv", ["ncc", *arguments])
    try:
        status = main()
    except SystemExit as end:
        status = int(end.code or 0)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_every_main_is_a_verb() -> None:
    files = [*(ROOT / "ncc").glob("*.py"), *(ROOT / "ncc").glob("*/__main__.py")]
    mains = {path.parent.name if path.name == "__main__.py" else path.stem
             for path in files if 'if __name__ == "__main__"' in path.read_text()}  # fmt: skip
    assert mains - {"ncc"} == set(VERBS)


def test_help_is_a_line_for_each_verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        status, out, _ = said(capsys, monkeypatch, *arguments)
        lines = out.splitlines()
        assert status == 0
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 80
        assert all(sum(line.split()[:1] == [verb] for line in lines) == 1 for verb in VERBS)
    assert all(sentence(verb).endswith(".") for verb in VERBS)


def test_an_unknown_verb_is_one_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = said(capsys, monkeypatch, "trian")
    assert status == 2
    assert err.startswith("error: Unknown verb 'trian'; known: agreement, bench")
    assert err.endswith("Did you mean 'train'?\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--version",), ("train", "--version"), ("evaluate", "--version")])
def test_the_version_is_ours(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = said(capsys, monkeypatch, *arguments)
    assert status == 0
    assert re.fullmatch(
        rf"ncc {re.escape(ncc.__version__)}(, commit [0-9a-f]{{10}}( with changes)?)?, Python 3[.\d]+\n", out
    )


@pytest.mark.parametrize("verb", ["host", "pack", "bench", "agreement"])
def test_parsers_call_themselves_by_the_verb(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = said(capsys, monkeypatch, verb, "--help")
    assert status == 0
    assert out.startswith(f"usage: ncc {verb} ")
    assert sentence(verb) in " ".join(out.split())


def test_a_status_of_a_verb_is_that_of_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = said(capsys, monkeypatch, "evaluate", "scenario=rak")
    assert status == 2
    assert "Unknown scenario 'rak'" in err


def test_asking_loads_no_heavy_library() -> None:
    code = (
        "import sys; from ncc.__main__ import main; main(); "
        "print('LOADED', [m for m in ('torch', 'ray', 'hydra', 'numpy', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("LOADED []\n")


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
