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
FREE = HostStack()
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


OPEN = Transport(recovery="classic", handshake=False)


def test_a_note_is_answered_as_a_syn_is(simulator: Simulator) -> None:
    """A note and its answer, of 52 + 38 bytes each, cross two links of 1 Gbit/s and 5 us before the first data."""
    made = fixed(SHALLOW, *THREE, period_s=1e-4, neighbourhoods="receivers", transport=OPEN)
    free, answered = (told(simulator, made, lambda *_: None, stack) for stack in (HostStack(), ANSWERS))
    assert answered.column("held_flows")[:5].tolist() == [[0, 0, 1]] * 3 + [[0, 0, 0]] * 2
    assert answered.records.flows.timeouts.sum() == 0
    wire_s = 90 * 8e-9
    asked_s = 2 * (2 * 5e-6 + 2 * wire_s) - wire_s  # data that need not wait leaves behind the note
    assert answered.fct_s.max() < free.fct_s.max() + asked_s + 1e-5, "the port is never idle"
    lone = fixed(SHALLOW, THREE[0], period_s=1e-4, neighbourhoods="receivers", transport=OPEN)
    at_once, asked = (told(simulator, lone, lambda *_: None, stack).fct_s[0] for stack in (FREE, ANSWERS))
    assert asked - at_once == pytest.approx(asked_s, abs=2e-8)


def test_a_flow_begins_at_once_where_the_last_answer_let_one(simulator: Simulator) -> None:
    """s2 is told to wait, so its next flow asks again; those of s0 and s1 do not wait for an answer."""
    rounds = [flow(f"s{i}", "receiver", 50_000, i * 1e-7 + at_s) for at_s in (0, 5e-3) for i in range(3)]
    made = fixed(SHALLOW, *rounds, period_s=1e-4, neighbourhoods="receivers", transport=OPEN)
    answered = told(simulator, made, lambda *_: None, ANSWERS)
    held = answered.column("held_flows")
    assert held[:4].tolist() == held[50:54].tolist() == [[0, 0, 1]] * 3 + [[0, 0, 0]]
    lone = fixed(SHALLOW, rounds[0], rounds[3], period_s=1e-4, neighbourhoods="receivers", transport=OPEN)
    free, answered = (told(simulator, lone, lambda *_: None, stack) for stack in (FREE, ANSWERS))
    assert answered.fct_s[1] == pytest.approx(free.fct_s[1], abs=2e-9)
    assert answered.fct_s[0] > free.fct_s[0] + 2e-5, "the first one asks"


def test_a_flow_of_one_packet_takes_the_place_of_its_note(simulator: Simulator) -> None:
    """Without starts in answers, it begins at once, and the next of its pair waits while it is under way."""
    sizes = {"s0": (1000, 1000), "s1": (1461,)}
    made = fixed(
        SHALLOW,
        *(flow(host, "receiver", size, 1e-7 * i) for host, each in sizes.items() for i, size in enumerate(each)),
        flow("s0", "receiver", 1000, 5e-3),
        period_s=1e-4,
        neighbourhoods="receivers",
        transport=OPEN,
    )
    done = told(simulator, made, lambda *_: None, HOLD)
    patience_s = 2e-4 + SHALLOW.buffer_bytes * 8e-9
    first, second, two_packets, later = done.fct_s[np.argsort(made.flows(1).start_s, kind="stable")][[0, 2, 1, 3]]
    assert [first, later] == pytest.approx([2 * 5e-6 + 2 * 1078 * 8e-9] * 2, abs=2e-8)
    assert patience_s < second < patience_s + 5e-5
    assert patience_s < two_packets < patience_s + 5e-5, "it does not fit one packet"


def test_a_flow_of_one_packet_has_no_note(simulator: Simulator) -> None:
    """Receivers hear of it by its packet; no limit of its pair holds it."""
    made = fixed(SHALLOW, flow("s0", "receiver", 1000), period_s=1e-4, neighbourhoods="receivers", transport=OPEN)
    held, free = (told(simulator, made, lambda *_: None, stack).records.ports.tx_bytes.sum() for stack in (HOLD, FREE))
    assert free - held == 2 * 52, "where receivers hold nobody, a note crosses two links"


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
