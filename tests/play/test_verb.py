# SPDX-License-Identifier: BSD-3-Clause
"""The verb `ncc play`, which opens the page."""

from pathlib import Path

import pytest

import ncc.play


def test_the_verb_opens_it_and_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def open_once(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr("webbrowser.open", open_once)
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
