# SPDX-License-Identifier: BSD-3-Clause
"""ExpressPass and the shaped queue: rates and queues worked by hand, losses of every word, both simulators alike."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.topology import Program
from ncc.core.units import GBPS, MS, US
from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import MSS, Simulator, carrying, engine, flow, run
from tests.datapaths.test_same_packets import random_flows, random_topology, run_alike

WORD_BYTES, FULL_BYTES = 46 + 38, 1538
CREDITS_SHARE = WORD_BYTES / (WORD_BYTES + FULL_BYTES)
"""Share of the line at which there is a credit for each full packet that the line can carry beside it."""
SHAPED: dict[str, Any] = {"shaped_frac": CREDITS_SHARE, "mark_threshold_bytes": 0}
PLAIN = (("alpha_permille", 1000), ("small_pkts", 0), ("jitter_permille", 0), ("timeout_ns", 2_000_000))
"""Full rate from the first credit on, and no jitter."""


crediting = partial(carrying, shaped_frac=CREDITS_SHARE)


def stack(**params: int) -> HostStack:
    return HostStack(transport="expresspass", params=tuple((dict(PLAIN) | params).items()))


def test_a_lone_flow_shares_the_line_with_no_credits(simulator: Simulator) -> None:
    """Credits come at 84/1622 of the line, and each lets 1538 bytes go: the wire is used to 1538/1622."""
    topology = ManyToOne(senders=1, rate_bps=10 * GBPS, delay_s=5 * US, **SHAPED)
    n = 4000
    done = run(simulator, crediting(topology, flow("s0", "receiver", n * MSS)), stack())
    payload_s = n * FULL_BYTES * 8 / (10 * GBPS)
    assert done.fct_s[0] / payload_s == pytest.approx((WORD_BYTES + FULL_BYTES) / FULL_BYTES, rel=0.01)
    assert done.records.flows.credits[0] - done.records.flows.wasted_credits[0] == n
    assert done.records.flows.retransmitted_pkts[0] == done.records.flows.reordered_pkts[0] == 0


@pytest.mark.parametrize(("far", "pkts"), [("s2", None), ("s1", 6)])
def test_credits_of_unequal_delays_crush(simulator: Simulator, far: str, pkts: int | None) -> None:
    """Credits of one flow after the other, data of both at once: n (2 - 1622/1538) packets wait. A tenth of the delays
    of configs/experiment/credit_crush.yaml."""
    n = 1541
    topology = ManyToOne(
        senders=3, rate_bps=10 * GBPS, delay_s=1 * US, last_delay_s=2 * MS, buffer_bytes=10**8, **SHAPED
    )
    flows = flow(far, "receiver", n * MSS), flow("s1", "receiver", n * MSS, 3 * MS)
    done = run(simulator, crediting(topology, *flows), stack(stops=2, timeout_ns=100_000_000))
    queue_pkts = done.records.ports.queue_max_bytes.max() / 1500
    if pkts is None:
        assert queue_pkts == pytest.approx(n * (2 - 1 / (FULL_BYTES / (FULL_BYTES + WORD_BYTES))), rel=0.02)
    else:
        assert queue_pkts <= pkts
    assert done.records.ports.dropped_pkts.sum() == 0


def test_what_the_shaped_queue_drops_is_counted_apart(simulator: Simulator) -> None:
    """Four flows at the full rate of credits meet in one port on the way back and lose most of these, but no data."""
    topology = ManyToOne(senders=4, rate_bps=10 * GBPS, delay_s=20 * US, **SHAPED)
    flows = [flow("receiver", f"s{i}", 300 * MSS, i * 1e-6) for i in range(4)]
    done = run(simulator, crediting(topology, *flows), stack())
    ports = done.records.ports
    assert ports.shaped_dropped_pkts.sum() == ports.dropped_pkts.sum() > 100
    assert ports.dropped_data_pkts.sum() == 0
    assert done.records.flows.retransmitted_pkts.sum() == 0
    # All credits cross one port, of which the share is 84/1622 of the line.
    assert done.fct_s.max() > 0.95 * 1200 * (FULL_BYTES + WORD_BYTES) * 8 / (10 * GBPS)


def loses(scenario: Scenario, port: str, nth: int, *, control: bool) -> Callable[[NativeDatapath], None]:
    def prepare(datapath: NativeDatapath) -> None:
        engine(datapath).plan_fault(scenario.network().port(port), nth, drop=True, control=control)

    return prepare


def test_a_stop_that_is_lost_is_said_again() -> None:
    """Lost are the last packet and four words in a row, first the STOP. An RTT has 63 credits at their full rate."""
    topology = ManyToOne(senders=1, rate_bps=10 * GBPS, delay_s=20 * US, **SHAPED)
    scenario = crediting(topology, flow("s0", "receiver", 100 * MSS))

    def prepare(datapath: NativeDatapath) -> None:
        loses(scenario, "tor->receiver", 100, control=False)(datapath)
        for nth in 2, 3, 4, 5:
            loses(scenario, "tor->receiver", nth, control=True)(datapath)

    done = run(PacketsimDatapath, scenario, stack(), prepare=prepare)
    assert done.records.flows.retransmitted_pkts[0] == 1
    assert done.records.flows.credits[0] < 100 + 6 * 63


@pytest.mark.parametrize("seed", range(6))
def test_both_simulators_do_the_same(seed: int) -> None:
    """Random networks that lose data and words; with limits in half of them."""
    random = np.random.default_rng(7000 + seed)
    topology = random_topology(random).replace(
        shaped_frac=CREDITS_SHARE, control_first=False, shared_buffer_bytes=0, red=None, classes=1 + seed % 2
    )
    scenario = crediting(topology, *random_flows(random, topology.build()))
    limits = np.where(random.random(scenario.n_agents) < 0.5, 2e8, np.inf) if seed % 2 else None
    port = str(random.choice([scenario.network().port_name(i) for i in range(2 * len(scenario.network().links))
                              if scenario.network().port_buffer(i) is not None]))  # fmt: skip
    lost = loses(scenario, port, int(random.integers(1, 30)), control=bool(seed % 3))
    params = {"alpha_permille": 500, "jitter_permille": 100, "small_pkts": 40, "stops": seed % 3}
    done = run_alike(scenario, stack(**params), max_epochs=3000, prepare=lost, limits=limits)
    assert np.isfinite(done.fct_s).all()


def test_programs_do_not_see_the_shaped_queue(simulator: Simulator) -> None:
    """CoDel, which drops at the head of its port's queue, serves data in both directions beside credits."""
    topology = ManyToOne(senders=2, rate_bps=10 * GBPS, delay_s=5 * US, programs=(Program(name="codel"),), **SHAPED)
    flows = flow("s0", "receiver", 400 * MSS), flow("receiver", "s1", 400 * MSS)
    done = run(simulator, crediting(topology, *flows), stack())
    assert np.isfinite(done.fct_s).all()
    assert done.records.ports.dropped_data_pkts.sum() == 0
