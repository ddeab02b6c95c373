# SPDX-License-Identifier: BSD-3-Clause
"""The verb `ncc play`, which opens the page."""

from pathlib import Path

import pytest

import ncc.play


def test_the_verb_opens_it_and_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    (tmp_path / "play.html").write_text("")
    monkeypatch.setattr(ncc.play, "PAGE", tmp_path / "play.html")
    assert ncc.play.main(["fair"]) == 0
    assert opened == [f"{(tmp_path / 'play.html').as_uri()}#fair"]
    monkeypatch.setattr(ncc.play, "PAGE", tmp_path / "none.html")
    assert ncc.play.main([]) == 2
    assert "make play" in capsys.readouterr().err
