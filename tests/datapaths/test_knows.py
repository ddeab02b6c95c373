# SPDX-License-Identifier: BSD-3-Clause
"""Knowledge of a host about the sizes of its flows: all, or what applications have written."""

import numpy as np
import pytest

from ncc.core.scenario import Knows, Nic, Transport
from ncc.core.topologies import Dumbbell
from ncc.core.units import US
from ncc.envs.native.base import NativeDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Run, Simulator, drops, fixed, flow, run

PATH = Dumbbell(pairs=2, host_rate_bps=2e9, delay_s=25 * US)
BACKLOG = Nic(knows="backlog")
FIRST_BYTES = 22 * MSS
"""Room of a new socket."""


def alone(simulator: Simulator, size_bytes: int, knows: Knows, *, send_buffer_bytes: int = 4_194_304) -> Run:
    scenario = fixed(
        PATH,
        flow("s0", "r0", size_bytes),
        period_s=1e-4,
        nic=Nic(knows=knows),
        transport=Transport(recovery="classic", send_buffer_bytes=send_buffer_bytes),
    )
    return run(simulator, scenario, max_epochs=4000)


def queued(done: Run) -> np.ndarray:
    return np.asarray(done.column("queued_bytes")[:, 0])


@pytest.mark.parametrize(("size_bytes", "first_write_pkts"), [(FIRST_BYTES, 22), (1_000_000, -(-1_000_000 // MSS))])
def test_a_flow_that_fits_a_new_socket_is_known_at_once(
    simulator: Simulator, size_bytes: int, first_write_pkts: int
) -> None:
    sizes, backlog = (
        queued(run(simulator, fixed(PATH, flow("s0", "r0", size_bytes), period_s=1e-4, nic=nic), max_epochs=4000))
        for nic in (Nic(), Nic(knows="backlog", first_write_pkts=first_write_pkts))
    )
    np.testing.assert_array_equal(sizes, backlog)


def test_a_long_flow_is_known_as_far_as_the_send_buffer_reaches(simulator: Simulator) -> None:
    sizes, backlog = (alone(simulator, 4_000_000, knows) for knows in ("sizes", "backlog"))
    np.testing.assert_array_equal(sizes.fct_s, backlog.fct_s, "knowing is not sending")
    assert queued(sizes)[0] > 3_900_000
    assert FIRST_BYTES - 15 * MSS <= queued(backlog)[0] <= FIRST_BYTES
    assert queued(backlog).max() > 2 * FIRST_BYTES, "the buffer grows with the window"
    assert queued(backlog).max() < 1_000_000
    for name in ("active_per_byte", "active_left"):
        np.testing.assert_array_equal(sizes.column(name), backlog.column(name))
    left = np.cumsum(backlog.column("goodput_bps")[:, 0]) * 1e-4 / 8
    last = np.flatnonzero(queued(backlog))[-1]
    assert queued(backlog)[last] + left[last] == pytest.approx(4_000_000, rel=0.1)


def test_the_send_buffer_of_the_scenario_is_the_most(simulator: Simulator) -> None:
    assert queued(alone(simulator, 4_000_000, "backlog", send_buffer_bytes=40_000)).max() <= 40_000


def test_flows_of_unknown_size_take_turns_and_short_ones_go_first(simulator: Simulator) -> None:
    """4 MB, then 1 MB and 20 KB: with sizes 1 MB goes before 4 MB, with backlogs both are long."""
    flows = (flow("s0", "r0", 4_000_000), flow("s0", "r0", 1_000_000, 0.02), flow("s0", "r0", 20_000, 0.02))
    stack = HostStack(order="sjf")
    with_sizes, backlog = (
        run(simulator, fixed(PATH, *flows, nic=nic), stack, limits=np.array([500e6, np.inf])).fct_s
        for nic in (Nic(), BACKLOG)
    )
    assert backlog[2] < 1.3 * with_sizes[2]
    assert backlog[1] > 0.95 * with_sizes[1]
    known = run(simulator, fixed(PATH, *flows, nic=BACKLOG), HostStack(order="known"), limits=np.array([500e6, np.inf]))
    assert known.fct_s[2] < 1.3 * with_sizes[2]


def test_what_is_known_never_falls(simulator: Simulator) -> None:
    """Losses halve the window, and the buffer with it; what was written stays known."""
    scenario = fixed(PATH, flow("s0", "r0", 2_000_000), period_s=1e-4, nic=BACKLOG)

    def prepare(datapath: NativeDatapath) -> None:
        drops(scenario, left__right=[200, 201, 500, 900])(datapath)

    done = run(simulator, scenario, prepare=prepare)
    assert done.records.flows.retransmitted_pkts[0] > 0
    sent = np.cumsum(done.column("throughput_bps")[:, 0]) * 1e-4 / 8 * MSS / 1500
    known = queued(done) + sent
    assert np.diff(known[queued(done) > 0]).min() >= -2 * 1500
