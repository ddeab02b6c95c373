# SPDX-License-Identifier: BSD-3-Clause
"""Some thousands of the fuzzer's messages, and faults that it finds."""

import random
from collections import Counter
from itertools import islice

import pytest

from ncc.host import listener
from ncc.host.listener import DROPPED, RECEIVED
from tests.host.fuzz import FoundError, messages


def test_messages() -> None:
    became = Counter(islice(messages(random.Random(1)), 6000))
    assert set(became) == {RECEIVED, *DROPPED}  # every way out is taken


def test_the_fuzzer_finds_a_parser_that_believes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "sane_state", lambda _: True)
    with pytest.raises(FoundError, match=r"(_bps|_s|_bytes) is \["):
        Counter(islice(messages(random.Random(1)), 20_000))


def test_the_fuzzer_finds_a_parser_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "misfit", lambda _: None)
    with pytest.raises(FoundError, match="a message raised"):
        Counter(islice(messages(random.Random(1)), 20_000))
