# SPDX-License-Identifier: BSD-3-Clause
"""Messages of receivers: who waits for them, late and lost ones, and agents that die."""

import numpy as np
import pytest

from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import Scenario
from tests.datapaths.runs import Simulator
from tests.datapaths.test_gates import RECEIVER, S0, S1, grant, star, told


def late(made: Scenario, simulator: Simulator) -> float:
    """FCT of a flow that begins when the first decision after its SYN is heard."""

    def tell(epoch: int, _: Measurement) -> Grants | None:
        return grant((S0, RECEIVER, 0.0, np.inf, 0)) if epoch == 1 else None

    return float(told(simulator, made, tell).fct_s[0])


def test_messages_are_as_late_as_the_scenario_has_them(simulator: Simulator) -> None:
    made = star(20_000)
    now = late(made, simulator)
    assert late(made.replace(sharing_delay_periods=3), simulator) - now == pytest.approx(2e-4, abs=1e-9)
    assert 0 < late(made.replace(sharing_unsynchronised=True), simulator) - now < 1e-4


def test_all_messages_lost_is_a_silent_receiver(simulator: Simulator) -> None:
    made = star(20_000)
    silent = told(simulator, made, lambda *_: None)
    many = star(20_000, sharing_loss_frac=0.999999)
    lost = told(simulator, many, lambda epoch, _: grant((S0, RECEIVER, 9.0, np.inf, 0)) if epoch > 0 else None)
    np.testing.assert_array_equal(lost.fct_s, silent.fct_s)


@pytest.mark.parametrize("word", [(9.0, np.inf, 0), (0.0, 1e6, 1)])
def test_senders_of_an_agent_that_died_go_on(simulator: Simulator, word: tuple[float, float, int]) -> None:
    """Whatever it had told before: a start in nine seconds, or next to no rate."""
    made = star(20_000, 20_000, sharing_silent=("receiver",), sharing_silent_from_s=5e-4)

    def tell(epoch: int, _: Measurement) -> Grants:
        return grant((S0, RECEIVER, *word), (S1, RECEIVER, 0.0, np.inf, 0))

    done = told(simulator, made, tell)
    assert done.fct_s[1] < 5e-4
    # It dies at 0.5 ms and goes on within two periods; then 14 packets cross two links of 1 Gbit/s.
    assert 5e-4 < done.fct_s[0] < 7e-4 + 14 * 1538 * 8e-9 + 2e-4
    assert done.records.flows.timeouts.sum() == 0


def test_the_host_of_a_dead_agent_says_so_again(simulator: Simulator) -> None:
    made = star(20_000, sharing_silent=("receiver",), sharing_silent_from_s=5e-4, sharing_loss_frac=0.3)
    done = told(simulator, made, lambda epoch, _: grant((S0, RECEIVER, 9.0, np.inf, 0)) if epoch else None)
    assert done.fct_s[0] < 5e-3
