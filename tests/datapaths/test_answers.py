# SPDX-License-Identifier: BSD-3-Clause
"""Answers of receivers: what a SYN-ACK tells a flow that waits."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Transport
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import Simulator, fixed, flow
from tests.datapaths.test_gates import HOLD, RECEIVER, S1, STAR, grant, told

ANSWERS = HostStack(hold=True, answer_frac=0.6)
SHALLOW = STAR.replace(buffer_bytes=100_000, mark_threshold_bytes=0)
THREE = [flow(f"s{i}", "receiver", 50_000, i * 1e-7) for i in range(3)]


def test_a_syn_ack_lets_flows_begin_with_little_ahead_and_tells_others_when(simulator: Simulator) -> None:
    """60 of 100 KB may lie ahead. The third flow has 100: it begins when 40 KB have come, 337 us after its SYN."""
    made = fixed(SHALLOW, *THREE, period_s=1e-4, neighbourhoods="receivers")
    free, answered = (told(simulator, made, lambda *_: None, stack) for stack in (HostStack(), ANSWERS))
    assert answered.column("held_flows")[:5].tolist() == [[0, 0, 1]] * 3 + [[0, 0, 0]] * 2
    assert free.column("held_flows").max() == 0
    assert answered.fct_s.max() < 1.03 * free.fct_s.max(), "the port is never idle"
    assert answered.fct_s[0] < 0.8 * free.fct_s[0]
    assert answered.records.flows.timeouts.sum() == 0
    waits = told(simulator, made, lambda *_: None, HOLD)
    assert answered.fct_s[:2].max() < waits.fct_s[:2].min(), "those wait for two periods"


def test_a_word_moves_what_a_syn_ack_has_told(simulator: Simulator) -> None:
    made = fixed(SHALLOW, *THREE, period_s=1e-4, neighbourhoods="receivers")

    def held(start_s: float) -> list[int]:
        word = grant((S1 + 1, RECEIVER, start_s, np.inf, 0))
        done = told(simulator, made, lambda epoch, _: word if epoch == 1 else None, ANSWERS)
        return [int(n) for n in done.column("held_flows")[:6, 2]]

    assert held(0.0) == [1, 0, 0, 0, 0, 0]
    assert held(4.5e-4) == [1, 1, 1, 1, 0, 0]


def test_a_flow_without_a_syn_gets_no_answer(simulator: Simulator) -> None:
    made = fixed(
        SHALLOW,
        *THREE,
        period_s=1e-4,
        neighbourhoods="receivers",
        transport=Transport(recovery="classic", handshake=False),
    )
    held, answered = (told(simulator, made, lambda *_: None, stack) for stack in (HOLD, ANSWERS))
    np.testing.assert_array_equal(held.records.flows.finish_s, answered.records.flows.finish_s)


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        ({"hold": False, "answer_frac": 0.6}, "answer_frac is about flows that wait"),
        ({"hold": True, "messages": "instant", "answer_frac": 0.6}, "answer_frac is about flows that wait"),
        ({"hold": True, "answer_frac": 1.5}, "answer_frac"),
        ({"hold": True, "answer_frac": -0.1}, "answer_frac"),
    ],
)
def test_answers_that_mean_nothing_are_refused(stack: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        HostStack(**stack)
