# SPDX-License-Identifier: BSD-3-Clause
"""Small cases without chance: every flow is compared, number by number."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from ncc.core.errors import ConfigError, InvalidRunError
from ncc.core.flows import FlowRecords, FlowTable
from ncc.core.scenario import Scenario
from ncc.core.topologies import AnyTopology, Dumbbell, ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.harness.datapath import Datapath, HostStack

FCT_FRAC = 0.01
PACKETS = 1
"""Bounds: relative difference of a flow's FCT, difference of its retransmissions and of its marks."""
MAX_EPOCHS = 3000
_SEED = 1  # nothing is drawn: routes are single and the flows are fixed


@dataclass(frozen=True)
class Fault:
    """Something done to the nth data packet (from 1) that arrives at a switch port, of all its flows together."""

    kind: Literal["drop", "mark"]
    port: str
    nth: int


@dataclass(frozen=True)
class SmallCase:
    """One comparison."""

    name: str
    what: str
    scenario: Scenario
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class SmallRow:
    """One flow of one case under one controller: ours, the reference's."""

    case: str
    controller: str
    flow: int
    size_bytes: int
    fct_s: tuple[float, float]
    retransmitted_pkts: tuple[int, int]
    timeouts: tuple[int, int]
    ce_pkts: tuple[int, int]

    @property
    def fct_error_frac(self) -> float:
        """Ours over the reference's, less 1."""
        return self.fct_s[0] / self.fct_s[1] - 1

    @property
    def inside(self) -> bool:
        """Whether all bounds hold."""
        counts = (self.retransmitted_pkts, self.ce_pkts)
        return abs(self.fct_error_frac) <= FCT_FRAC and all(abs(a - b) <= PACKETS for a, b in counts)


def _case(name: str, what: str, topology: AnyTopology, flows: Sequence[Flow], *faults: Fault) -> SmallCase:
    workload = (("fixed", Fixed(flows=tuple(flows))),)
    return SmallCase(name, what, Scenario(name=name, topology=topology, workload=workload, duration_s=0.1), faults)


def _flow(src: str, dst: str, size_bytes: int, start_s: float = 0.0) -> Flow:
    return Flow(start_s=start_s, src=src, dst=dst, size_bytes=size_bytes)


def _one(size_bytes: int) -> list[Flow]:
    return [_flow("s0", "r0", size_bytes)]


MSS = 1460
_EMPTY = Dumbbell(pairs=1)
_HALF = Dumbbell(pairs=1, host_rate_bps=2e9)  # a bottleneck of half the host's rate: the queue is in the switch
_MIDDLE = "left->right"

SMALL_CASES: tuple[SmallCase, ...] = (
    _case(
        "one_flow",
        "flows of 1 B, 1 packet, 20 KB and 2 MB, one after the other, in an empty network",
        _EMPTY,
        [_flow("s0", "r0", size, at) for size, at in ((1, 0.0), (MSS, 0.002), (20_000, 0.004), (2_000_000, 0.006))],
    ),
    _case("one_bottleneck", "one flow of 5 MB from a host twice as fast as the bottleneck", _HALF, _one(5_000_000)),
    _case(
        "two_share",
        "two flows of 5 MB, 1 ms apart, through one bottleneck",
        Dumbbell(pairs=2),
        [_flow(f"s{i}", f"r{i}", 5_000_000, i * 1e-3) for i in range(2)],
    ),
    _case(
        "four_to_one",
        "four flows of 1 MB, 7 us apart, to one receiver",
        ManyToOne(senders=4),
        [_flow(f"s{i}", "receiver", 1_000_000, i * 7e-6) for i in range(4)],
    ),
    _case(
        "overflow",
        "one flow of 2 MB from a host twice as fast, into 100 KB without marking",
        Dumbbell(pairs=1, host_rate_bps=2e9, buffer_bytes=100_000, mark_threshold_bytes=0),
        _one(2_000_000),
    ),
    _case("one_drop", "300 KB, data packet 60 dropped", _EMPTY, _one(300_000), Fault("drop", _MIDDLE, 60)),
    _case(
        "two_drops",
        "300 KB, data packets 60 and 62 dropped, on different hops: one recovery with two holes",
        _EMPTY,
        _one(300_000),
        Fault("drop", _MIDDLE, 60),
        Fault("drop", "right->r0", 61),
    ),
    _case("one_mark", "300 KB, data packet 60 marked", _EMPTY, _one(300_000), Fault("mark", _MIDDLE, 60)),
    _case(
        "tail_loss", "20 KB, the last data packet dropped: a timeout", _EMPTY, _one(20_000), Fault("drop", _MIDDLE, 14)
    ),
)
"""A port has one pending drop and one pending mark at a time."""


def compare_small(
    ours: Datapath, reference: Datapath, controllers: Sequence[str], cases: Sequence[SmallCase] = SMALL_CASES
) -> Iterator[SmallRow]:
    """Run every case under every controller on both; a row per flow.

    Raises:
        InvalidRunError: a flow was not delivered within `MAX_EPOCHS`.
        ConfigError: a datapath offers no faults.
    """
    for case in cases:
        flows = case.scenario.flows(_SEED)
        for controller in controllers:
            pair = [run_small(datapath, case, flows, HostStack(transport=controller)) for datapath in (ours, reference)]
            fcts = [records.finish_s - flows.start_s for records in pair]
            counts: dict[str, Any] = {
                name: np.stack([getattr(records, name) for records in pair]).T.tolist()
                for name in ("retransmitted_pkts", "timeouts", "ce_pkts")
            }
            for i in range(len(flows)):
                yield SmallRow(
                    case.name,
                    controller,
                    i,
                    int(flows.size_bytes[i]),
                    (float(fcts[0][i]), float(fcts[1][i])),
                    *(tuple(column[i]) for column in counts.values()),
                )


def run_small(datapath: Datapath, case: SmallCase, flows: FlowTable, stack: HostStack) -> FlowRecords:
    """One run of one case, no host limited."""
    network = case.scenario.network()
    measurement = datapath.start(case.scenario, flows, stack, _SEED)
    try:
        for fault in case.faults:
            _inject(datapath, fault, network.port(fault.port))
        limits = np.full(case.scenario.n_agents, np.inf)
        while measurement.flows_finished < len(flows):
            if measurement.epoch >= MAX_EPOCHS:
                raise InvalidRunError(
                    f"case {case.name!r} under {stack.transport} on {datapath.name}: "
                    f"{len(flows) - measurement.flows_finished} of {len(flows)} flows not delivered after "
                    f"{measurement.time_s:.3g} s"
                )
            measurement = datapath.step(limits)
        return datapath.finish().flows
    finally:
        datapath.close()


def _inject(datapath: Datapath, fault: Fault, port: int) -> None:
    hook = getattr(cast(Any, datapath), "_network", None)
    do = getattr(hook, f"{fault.kind}_packet", None)
    if do is None:
        raise ConfigError(
            f"datapath {datapath.name!r} cannot {fault.kind} a packet of its own choosing; compare others"
        )
    do(port, fault.nth)
