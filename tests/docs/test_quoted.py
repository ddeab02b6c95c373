# SPDX-License-Identifier: BSD-3-Clause
"""Commands in pages print what the pages show (the tutorial's own controller: tests/baselines/test_adding_one.py)."""

import re
from pathlib import Path

import pytest

from tests.docs.quoted import assert_printed, blocks, quoted
from tests.house.files import tracked
from tests.mains.commands import ncc

TUTORIAL, EXPORT, NETWORK = "docs/tutorial/README.md", "docs/export/README.md", "docs/network.md"
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


def test_the_first_comparisons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README and tutorial show the same one, whose runs are kept."""
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
    for page in (TUTORIAL, "README.md"):
        words, shown = quoted(page, "ncc evaluate scenario=incast scenario.period_s=100us")
        done = ncc(*words, "out=runs", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert_printed(shown, done.stdout)


def test_an_exported_policy(tmp_path: Path) -> None:
    words, shown = quoted(EXPORT, "ncc export policy=ncc")
    assert_printed(shown, ncc(*words, cwd=tmp_path).stdout)
    words, shown = quoted(TUTORIAL, "ncc export inspect policy.ncc")
    assert_printed(shown, ncc(*words, cwd=tmp_path).stdout, whole=False)


def test_a_network_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the files that the page shows."""
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)
    kinds = dict(reversed(blocks(NETWORK)))
    (tmp_path / "my_network.yaml").write_text(kinds["yaml"])
    (tmp_path / "my_sizes.csv").write_text(kinds["csv"])
    words, shown = quoted(NETWORK, "ncc evaluate scenario=my_network.yaml")
    done = ncc(*words, "out=runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_printed(shown, done.stdout)


@pytest.mark.parametrize("page", sorted(path for path in tracked() if path.endswith(".md")))
def test_commands_are_the_same_in_every_shell(page: str) -> None:
    """Unquoted brackets and braces mean something to zsh and fish."""
    lines = [line.partition("  #")[0] for kind, text in blocks(page) if kind == "sh" for line in text.splitlines()]
    ours = [line for line in lines if line.startswith(("ncc ", "pip ", "python ", "make "))]
    assert not [line for line in ours if re.search(r"[\[\]{}*?]", QUOTED.sub("", line))]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("FCT 21.1* ±7.2", "FCT     21.1* ±7.2\n", True),
        ("FCT 21.1* ±7.2", "FCT 21.4* ±7.2", True),
        ("FCT 21.1* ±7.2", "FCT 21.9* ±7.2", False),
        ("FCT 21.1* ±7.2", "FCT 21.1 ±7.2", False),
        ("1,219 flows", "1,300 flows", False),
        ("a\nb", "x\na\nb", True),
        ("a\nc", "a\nb\nc", False),
        ("format: 4", "format: 5", False),
        ("a\nb", "b\na", False),
        ("4 % sooner", "8 % later", False),
    ],
)
def test_what_may_differ(shown: str, printed: str, same: bool) -> None:
    if same:
        assert_printed(shown, printed)
    else:
        with pytest.raises(AssertionError):
            assert_printed(shown, printed)
