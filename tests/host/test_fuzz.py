# SPDX-License-Identifier: BSD-3-Clause
"""Some thousands of the fuzzer's messages and some hundreds of its policy files, and that it finds what is wrong."""

import random
from collections import Counter
from itertools import islice

import pytest

from ncc.host.listener import DROPPED, RECEIVED
from ncc.policies import listening
from tests.host.fuzz import FoundError, messages, mutated, policies


def test_messages() -> None:
    became = Counter(islice(messages(random.Random(1)), 6000))
    assert set(became) == {RECEIVED, *DROPPED}  # every way out is taken


def test_policy_files() -> None:
    became = Counter(islice(policies(random.Random(1)), 150))
    assert became["refused"] > 100
    assert became["accepted"] > 0


def test_the_fuzzer_finds_a_parser_that_believes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "sane_state", lambda _: True)
    with pytest.raises(FoundError, match=r"(_bps|_s|_bytes) is \["):
        Counter(islice(messages(random.Random(1)), 20_000))


def test_the_fuzzer_finds_a_parser_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "misfit", lambda _: None)
    with pytest.raises(FoundError, match="a message raised"):
        Counter(islice(messages(random.Random(1)), 20_000))


def test_changes_are_changes() -> None:
    rng = random.Random(1)
    changed = {mutated(b"0123456789", rng) for _ in range(500)}
    assert len(changed) > 400
    assert len({len(data) for data in changed}) > 10
