# SPDX-License-Identifier: BSD-3-Clause
"""The text of `--help` of every main that Hydra composes."""

import re
import shlex

import hydra
import pytest

from ncc.cli.help import examples, written
from ncc.cli.verbs import VERBS, sentence
from ncc.cli.words import as_hydra_reads
from ncc.run.compose import register
from ncc.study.sweep.space import quoted_list
from tests.house.files import ROOT
from tests.mains.commands import ncc_apart, verb

COMPOSED = [verb for verb in VERBS if (ROOT / "configs" / f"{verb}.yaml").exists()]


def helped(*arguments: str, columns: int = 80) -> str:
    done = verb(*arguments, columns=columns)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", COMPOSED)
def test_help_fits_a_screen_and_has_a_text_for_all_that_it_shows(name: str) -> None:
    """In a process of its own, to which no other test has added names."""
    out = ncc_apart("__main__", name, "--help", cwd=ROOT, COLUMNS="80").stdout
    lines = out.splitlines()
    assert len(lines) <= 61
    assert not [line for line in lines if len(line) > 80]
    assert sentence(name) in out
    groups, keys = written(name)
    shown = set(re.findall(r"^  ([a-z_][\w/.]*)=", out, re.MULTILINE))
    assert {*groups, *keys} <= shown
    assert not [group for group, (_, text) in groups.items() if not text]
    assert not [key for key, text in keys.items() if not text]


@pytest.mark.parametrize("name", COMPOSED)
def test_examples_can_be_typed(name: str) -> None:
    register()
    assert len(examples(name)) == 3
    for example in examples(name):
        typed = shlex.split(re.split(r"   *", example)[0])
        assert typed[:2] == ["ncc", name]
        with hydra.initialize_config_module("ncc.configs", version_base=None):
            words = [quoted_list(word) for word in typed[2:] if "=" in word and word[:6] != "space."]
            hydra.compose(name, as_hydra_reads(words, name))


def test_help_speaks_of_what_was_typed() -> None:
    out = helped("train", "scenario=incast", "seed=7", "--help")
    assert "  scenario=incast " in out
    assert "  seed=7 " in out


def test_the_keys_within_a_group_have_the_texts_of_their_values() -> None:
    out = helped("train", "--help", "scenario", columns=120)
    assert re.search(r"scenario\.topology\.buffer_bytes=512000 +A port's own buffer", out)
    assert re.search(r"scenario\.topology\.host_rate_bps=1e09 +bits per second", out)
    assert re.search(r"scenario\.workload\.websearch\.distribution=websearch +A published table", out)
    assert "agent." not in out


def test_no_key_is_broken() -> None:
    lines = helped("train", "--help", "scenario", columns=60).splitlines()
    assert "  scenario.transport.receive_buffer_bytes=null" in lines
    assert lines == [line.rstrip() for line in lines], "and none is padded"


def test_a_part_that_does_not_exist_is_one_sentence() -> None:
    done = verb("train", "--help", "scenarios")
    assert done.returncode == 2
    assert "Did you mean 'scenario'?" in done.stderr
