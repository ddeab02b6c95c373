# SPDX-License-Identifier: BSD-3-Clause
"""The verb `ncc play`, which opens the page."""

from pathlib import Path

import pytest

import ncc.play


def test_the_verb_opens_it_and_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or len(opened) == 1)
    (tmp_path / "play.html").write_text("")
    monkeypatch.setattr(ncc.play, "PAGE", tmp_path / "play.html")
    assert ncc.play.main(["fair"]) == 0
    page = (tmp_path / "play.html").as_uri()
    assert opened == [f"{page}#fair"]
    assert not capsys.readouterr().err
    assert ncc.play.main(['https://example.org/play.html#kind=rack&a=ncc "&"']) == 0
    assert opened[1] == f"{page}#kind=rack&a=ncc%20%22&%22"
    assert "open this address" in capsys.readouterr().err
    monkeypatch.setattr(ncc.play, "PAGE", tmp_path / "none.html")
    assert ncc.play.main([]) == 2
    assert "make play" in capsys.readouterr().err
