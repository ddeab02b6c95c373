# SPDX-License-Identifier: BSD-3-Clause
"""Small cases without randomness: every flow is compared, number by number."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from ncc.core.errors import InvalidRunError
from ncc.core.flows import FlowRecords, FlowTable
from ncc.core.scenario import Routing, Scenario, Transport
from ncc.core.topologies import AnyTopology
from ncc.core.value import Count, Name, Value, from_dict
from ncc.core.workload import Fixed, Flow
from ncc.harness.datapath import Datapath, HostStack
from ncc.study.agreement.cases import DESCRIBED
from ncc.study.agreement.compare import Row

FCT_FRAC = 0.01
PACKETS = 1
"""Bounds: relative difference of a flow's FCT, difference of its retransmissions and of its marks."""
COUNTS = ("retransmitted_pkts", "timeouts", "ce_pkts")
MAX_EPOCHS = 3000
_SEED = 1  # nothing is drawn: routes are single and the flows are fixed


class Fault(Value, frozen=True):
    """A drop or a mark of the nth data packet (from 1) that arrives at a switch port, counted over all flows."""

    kind: Literal["drop", "mark"]
    port: str
    nth: Count


class SmallCase(Value, frozen=True):
    """One comparison."""

    name: Name
    what: str
    topology: AnyTopology
    flows: tuple[Flow, ...]
    faults: tuple[Fault, ...] = ()
    routing: Routing = "ecmp"
    transport: Transport = Transport(recovery="classic")
    tags: Name = "none"
    """Classes and ranks of data packets, under every controller."""

    @property
    def scenario(self) -> Scenario:
        """Its flows in its network."""
        workload = (("fixed", Fixed(flows=self.flows)),)
        return Scenario(
            name=self.name,
            topology=self.topology,
            workload=workload,
            duration_s=0.1,
            routing=self.routing,
            transport=self.transport,
        )


SMALL_CASES = tuple(
    from_dict(SmallCase, {"name": name, **plain}, f"small.{name}") for name, plain in DESCRIBED["small"].items()
)


def compare_small(ours: Datapath, reference: Datapath, controllers: Sequence[str]) -> Iterator[Row]:
    """Run every case under every controller on both datapaths; yield a row per flow, with our number and theirs.

    Raises:
        InvalidRunError: a flow was not delivered within `MAX_EPOCHS`.
    """
    for case in SMALL_CASES:
        flows = case.scenario.flows(_SEED)
        for controller in controllers:
            stack = HostStack(transport=controller, tags=case.tags)
            pair = [_run(datapath, case, flows, stack) for datapath in (ours, reference)]
            for i in range(len(flows)):
                row: Row = {"case": case.name, "controller": controller, "flow": i}
                row["fct_s"] = [float(records.finish_s[i] - flows.start_s[i]) for records in pair]
                row |= {name: [int(getattr(records, name)[i]) for records in pair] for name in COUNTS}
                yield row | {"inside": inside(row)}


def fct_error_frac(row: Row) -> float:
    """Relative error of our FCT: ours over the reference's, minus 1."""
    ours, reference = row["fct_s"]
    return float(ours / reference - 1)


def inside(row: Row) -> bool:
    """True if all bounds hold."""
    counts = (row["retransmitted_pkts"], row["ce_pkts"])
    return abs(fct_error_frac(row)) <= FCT_FRAC and all(abs(a - b) <= PACKETS for a, b in counts)


def _run(datapath: Datapath, case: SmallCase, flows: FlowTable, stack: HostStack) -> FlowRecords:
    """Run a case, with no host limited."""
    scenario = case.scenario
    network = scenario.network()
    measurement = datapath.start(scenario, flows, stack, _SEED)
    try:
        for fault in case.faults:
            cast(Any, datapath)._network.plan_fault(network.port(fault.port), fault.nth, **{fault.kind: True})
        limits = np.full(scenario.n_agents, np.inf)
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
