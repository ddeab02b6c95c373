# SPDX-License-Identifier: BSD-3-Clause
"""What `--help` shows of every main that Hydra composes."""

import re
import shlex
import sys

import hydra
import pytest

from ncc.__main__ import main
from ncc.compose import register
from ncc.help import examples, within, written
from ncc.study.sweep.space import quoted_list
from ncc.verbs import VERBS, sentence
from tests.house.files import ROOT

COMPOSED = [verb for verb in VERBS if (ROOT / "configs" / f"{verb}.yaml").exists()]


def helped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["ncc", *arguments])
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main() == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", COMPOSED)
def test_help_fits_a_screen_and_has_a_text_for_all_that_it_shows(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = helped(capsys, monkeypatch, 80, verb, "--help")
    lines = out.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert sentence(verb) in out
    groups, keys = written(verb)
    shown = set(re.findall(r"^  ([a-z_][\w/.]*)=", out, re.MULTILINE))
    assert {*groups, *keys} <= shown
    assert not [group for group, (_, text) in groups.items() if not text]
    assert not [key for key, text in keys.items() if not text]


@pytest.mark.parametrize("columns", [120, 200])
def test_lines_stay_readable_on_wide_terminals(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(map(len, helped(capsys, monkeypatch, columns, "train", "--help").splitlines())) <= 120


@pytest.mark.parametrize("verb", COMPOSED)
def test_examples_can_be_typed(verb: str) -> None:
    register()
    assert len(examples(verb)) == 3
    for example in examples(verb):
        typed = shlex.split(re.split(r"   *", example)[0])
        assert typed[:2] == ["ncc", verb]
        with hydra.initialize_config_module("ncc.configs", version_base=None):
            hydra.compose(verb, [quoted_list(word) for word in typed[2:] if "=" in word and word[:6] != "space."])


def test_help_speaks_of_what_was_typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = helped(capsys, monkeypatch, 80, "train", "scenario=incast", "seed=7", "--help")
    assert "  scenario=incast " in out
    assert "  seed=7 " in out


def test_the_keys_within_a_group_have_the_texts_of_their_values(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = helped(capsys, monkeypatch, 120, "train", "--help", "scenario")
    assert re.search(r"scenario\.topology\.buffer_bytes=512000 +A port's own buffer", out)
    assert re.search(r"scenario\.topology\.host_rate_bps=1e09 +bits per second", out)
    assert re.search(r"scenario\.workload\.websearch\.distribution=websearch +A published table", out)
    assert "agent." not in out


def test_a_part_that_does_not_exist_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ncc", "train", "--help", "scenarios"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "Did you mean 'scenario'?" in capsys.readouterr().err


def test_keys_are_listed_with_their_values() -> None:
    lines = {key: (value, text) for key, value, text in within({"seed": 3, "agent": {"learner": "a3c", "workers": 2}})}
    assert lines["seed"] == (3, "")
    assert lines["agent.workers"][1].startswith("Processes of `async`")
