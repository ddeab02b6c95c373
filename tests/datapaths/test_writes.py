# SPDX-License-Identifier: BSD-3-Clause
"""Applications that write their flows piece by piece."""

import numpy as np
import pytest

from ncc.core.scenario import Knows, Nic, Scenario, Transport
from ncc.core.topologies import Dumbbell, Rack
from ncc.core.units import MS, US
from ncc.core.workload import Fixed, Flow
from ncc.core.writes import Writes
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import CLASSIC, MSS, Simulator, drops, flow, run
from tests.datapaths.test_same_packets import run_alike

PATH = Dumbbell(pairs=2, host_rate_bps=2e9, delay_s=5 * US)
FAST = Transport(recovery="classic", handshake=False)


def streamed(*flows: Flow, writes: Writes, at_once: tuple[Flow, ...] = (), **settings: object) -> Scenario:
    parts = (("stream", Fixed(flows=flows, writes=writes)), ("others", Fixed(flows=at_once)))
    values: dict[str, object] = {"name": "test", "topology": PATH, "duration_s": 1.0, "transport": CLASSIC} | settings
    workload = tuple(part for part in parts if part[1].flows)
    return Scenario(workload=workload, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("recovery", ["classic", "modern"])
@pytest.mark.parametrize("control", ["dctcp", "bbr"])
def test_a_stream_lasts_as_long_as_its_application_writes(simulator: Simulator, control: str, recovery: str) -> None:
    """20 pieces, 1 ms apart: the last one is written after 19 ms, and pauses of an RTO and more are no losses."""
    writes = Writes(chunk_bytes=20 * MSS, every_s=1 * MS)
    stream = flow("s0", "r0", 20 * 20 * MSS - 500)
    transport = Transport(recovery=recovery, min_rto_s=1 * MS)  # type: ignore[arg-type]
    done = run(simulator, streamed(stream, writes=writes, transport=transport), control)
    at_once = run(simulator, streamed(stream, writes=Writes(chunk_bytes=2**31, every_s=1.0)), control)
    assert 19 * MS < done.fct_s[0] < 21 * MS
    assert at_once.fct_s[0] < 9 * MS
    assert done.records.flows.timeouts[0] == 0
    assert done.records.flows.retransmitted_pkts[0] == 0
    assert done.records.flows.sent_pkts[0] == 400


def test_pieces_of_part_of_a_packet_wait_until_it_is_whole(simulator: Simulator) -> None:
    writes = Writes(chunk_bytes=500, every_s=1 * MS)
    done = run(simulator, streamed(flow("s0", "r0", 6_000), writes=writes, transport=FAST))
    assert done.records.flows.sent_pkts[0] == 5
    assert 11 * MS < done.fct_s[0] < 12 * MS


@pytest.mark.parametrize(("knows", "first"), [("backlog", 4 * MSS), ("sizes", 100 * MSS)])
def test_what_is_not_written_is_not_known(simulator: Simulator, knows: Knows, first: int) -> None:
    writes = Writes(chunk_bytes=4 * MSS, every_s=10 * MS)
    scenario = streamed(flow("s0", "r0", 100 * MSS), writes=writes, nic=Nic(knows=knows), transport=FAST, period_s=1e-4)
    done = run(simulator, scenario, limits=np.array([1e6, np.inf]), max_epochs=3)
    assert first - 3 * MSS <= done.column("queued_bytes")[0, 0] <= first


@pytest.mark.parametrize("seed", range(8))
def test_both_simulators_write_the_same(seed: int) -> None:
    random = np.random.default_rng(3000 + seed)
    writes = Writes(
        chunk_bytes=int(random.choice([MSS, 3_000, 10_000, 50_000])), every_s=float(random.choice([100 * US, 3e-3]))
    )
    drawn = [
        flow(f"h{i % 4}", f"r{i % 2}", int(random.integers(1, 300_000)), round(float(random.random()) * 5 * MS, 9))
        for i in range(16)
    ]
    scenario = streamed(
        *drawn[:8],
        writes=writes,
        at_once=tuple(drawn[8:]),
        topology=Rack(hosts=4, buffer_bytes=60_000, mark_threshold_bytes=20_000),
        nic=Nic(knows="backlog"),
        transport=Transport(
            recovery="classic", connections_per_pair=seed % 3, send_buffer_bytes=int(random.choice([40_000, 2**22]))
        ),
    )
    limits = random.choice([1e8, 1e9, np.inf], size=(8, 4))
    done = run_alike(
        scenario,
        HostStack(transport=["dctcp", "cubic", "bbr", "newreno"][seed % 4], order=["known", "fifo"][seed // 4]),
        limits=lambda epoch: limits[epoch // 5 % 8],
        prepare=drops(scenario, tor__core=int(random.integers(1, 60))),
    )
    assert not np.isnan(done.records.flows.finish_s).any()
