# SPDX-License-Identifier: BSD-3-Clause
"""Small cases without randomness, in which the numbers of every single flow are compared."""

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
from ncc.study.agreement.compare import Row, same

COUNTS = ("retransmitted_pkts", "timeouts", "ce_pkts")
"""Numbers of a flow that are compared beside its FCT."""
MAX_EPOCHS = 3000
"""Periods within which all flows must be delivered."""
_SEED = 1  # without effect: there is a single route for each flow, and the flows are fixed


class Fault(Value, frozen=True):
    """A drop or a mark of one data packet: the nth (from 1) that arrives at a switch port, of whatever flow."""

    kind: Literal["drop", "mark"]
    port: str
    """Name of the port, as `from->to`."""
    nth: Count


class SmallCase(Value, frozen=True):
    """One small case: a network, its flows, and faults that are put in on purpose."""

    name: Name
    what: str
    topology: AnyTopology
    flows: tuple[Flow, ...]
    faults: tuple[Fault, ...] = ()
    routing: Routing = "ecmp"
    transport: Transport = Transport(recovery="classic")
    tags: Name = "none"
    """Rule that gives data packets their class and rank (`ncc.harness.datapath.HostStack`)."""

    @property
    def scenario(self) -> Scenario:
        """Scenario with the flows of the case in its network."""
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
    """Run every case with every controller on both datapaths.

    Yields:
        A row for each flow. Each number in it is a list of two: that of our datapath and that of the reference.

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
                yield row | {"same": is_same(row)}


def is_same(row: Row) -> bool:
    """True if the flow of a row has the same FCT on both datapaths, to the nanosecond, and the same `COUNTS`."""
    return same(*np.array(row["fct_s"])) == 1 and all(row[name][0] == row[name][1] for name in COUNTS)


def _run(datapath: Datapath, case: SmallCase, flows: FlowTable, stack: HostStack) -> FlowRecords:
    """Run a case without rate limits."""
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
