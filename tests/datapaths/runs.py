# SPDX-License-Identifier: BSD-3-Clause
"""Small scenarios and complete runs of simulators, for their tests."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from ncc.core.flows import FloatArray, FlowTable
from ncc.core.measurement import Measurement
from ncc.core.receivers import Grants
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import AnyTopology, Dumbbell
from ncc.core.workload import Fixed, Flow
from ncc.envs.make import datapath_factory, datapaths
from ncc.envs.native.base import NativeDatapath
from ncc.envs.native.extension import Network, filled
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.datapath import HostStack, Records

MSS = 1460
CLASSIC = Transport(recovery="classic")
"""In which both simulators are the same to the nanosecond."""
Simulator = type[NativeDatapath]


def _simulators() -> tuple[Simulator, ...]:
    made = [datapath_factory(name) for name in datapaths()]
    return tuple(each for each in made if isinstance(each, type) and issubclass(each, NativeDatapath))


SIMULATORS = _simulators()
SIMULATED = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda each: each.name)
"""A test on every simulator."""


def over_transports(*transports: str) -> pytest.MarkDecorator:
    """A test with each of these on every simulator that has it."""
    cases = [(each, name) for each in SIMULATORS for name in transports if name in each().transports()]
    ids = [f"{each.name}-{name}" for each, name in cases]
    return pytest.mark.parametrize(("simulator", "transport"), cases, ids=ids)


def flow(src: str, dst: str, size_bytes: int, start_s: float = 0.0) -> Flow:
    return Flow(start_s=start_s, src=src, dst=dst, size_bytes=size_bytes)


def fixed(topology: AnyTopology, *flows: Flow, **settings: object) -> Scenario:
    """A scenario with exactly these flows, over classic recovery unless its settings say otherwise."""
    values = {"name": "test", "duration_s": 1.0, "transport": CLASSIC} | settings
    return Scenario(topology=topology, workload=(("fixed", Fixed(flows=flows)),), **values)  # type: ignore[arg-type]


SHAPED_FRAC = 84 / (2 * 84 + 1538)
"""Share of the line with which a request, a credit of the other direction and a packet fit it."""


def carrying(topology: AnyTopology, *flows: Flow, shaped_frac: float = SHAPED_FRAC, **settings: object) -> Scenario:
    """The same for message transports: no connections, and a shaped queue in each NIC."""
    values = {
        "transport": CLASSIC.replace(handshake=False),
        "routing": "symmetric",
        "nic": Nic(shaped_frac=shaped_frac),
    }
    return fixed(topology, *flows, **(values | settings))


def engine(datapath: NativeDatapath) -> Network:
    """The simulation of a started datapath, for what only tests ask of it."""
    assert datapath._network is not None
    return datapath._network


def drops(scenario: Scenario, **nth: int | Iterable[int]) -> Callable[[NativeDatapath], None]:
    """For `prepare`: drop the nth data packets at the port from `a` to `b`, given as ``a__b=nth``."""

    def prepare(datapath: NativeDatapath) -> None:
        for port, which in nth.items():
            for n in (which,) if isinstance(which, int) else which:
                engine(datapath).plan_fault(scenario.network().port(port.replace("__", "->")), n, drop=True)

    return prepare


@dataclass
class Run:
    """A finished run."""

    flows: FlowTable
    records: Records
    epochs: list[Measurement]

    @property
    def fct_s(self) -> FloatArray:
        return self.records.flows.finish_s - self.flows.start_s

    def column(self, name: str) -> np.ndarray:
        """[n_epochs, ...] without the measurement of the start."""
        return np.array([getattr(m, name) for m in self.epochs[1:]])


def same_records(one: Records, two: Records) -> bool:
    """True if all flows and ports are the same to the last bit."""
    pairs = ((one.flows, two.flows), (one.ports, two.ports))
    columns = [(getattr(a, field.name), getattr(b, field.name)) for a, b in pairs for field in fields(a)]
    return all(a.tobytes() == b.tobytes() for a, b in columns)


def run(
    simulator: Simulator,
    scenario: Scenario,
    stack: HostStack | str = "dctcp",
    *,
    seed: int = 1,
    limits: Callable[[int], FloatArray] | FloatArray | None = None,
    max_epochs: int = 3000,
    until_done: bool = True,
    prepare: Callable[[NativeDatapath], None] | None = None,
    tell: Callable[[int, Measurement], Grants | None] | None = None,
) -> Run:
    """Step until every flow is delivered, or `max_epochs`.

    `tell` makes receivers' messages of each epoch's number and measurement.
    """
    flows = scenario.flows(seed)
    datapath = simulator()
    try:
        epochs = [
            datapath.start(scenario, flows, HostStack(transport=stack) if isinstance(stack, str) else stack, seed)
        ]
        if prepare:
            prepare(datapath)
        unlimited = np.full(scenario.n_agents, np.inf)
        while len(epochs) <= max_epochs and not (until_done and epochs[-1].flows_finished == len(flows)):
            now = limits(len(epochs) - 1) if callable(limits) else unlimited if limits is None else limits
            if tell and (grants := tell(len(epochs) - 1, epochs[-1])) is not None:
                datapath.tell(grants)
            epochs.append(datapath.step(now))
        return Run(flows, datapath.finish(), epochs)
    finally:
        datapath.close()


def long_path(one_way_s: float) -> Dumbbell:
    """A path without a bottleneck, on which the packets of a round are sent together."""
    return Dumbbell(
        pairs=1,
        host_rate_bps=1e11,
        bottleneck_rate_bps=1e11,
        mark_threshold_bytes=0,
        buffer_bytes=10_000_000,
        delay_s=one_way_s / 3,
    )


def sent_packets(
    scenario: Scenario,
    control: str,
    *,
    drop: Iterable[int] = (),
    mark: Iterable[int] = (),
    delay_s: Mapping[int, float] | None = None,
) -> list[tuple[float, int]]:
    """Times in seconds since the first, and numbers, of the data packets that packetsim sends of a single flow.

    The nth data packets at the port left->right, counted from 1, are dropped, marked or delayed.
    """
    datapath = PacketsimDatapath()
    datapath.start(scenario, scenario.flows(1), HostStack(transport=control), 1)
    network, port = engine(datapath), scenario.network().port("left->right")
    network.record_sent()
    for nth in drop:
        network.plan_fault(port, nth, drop=True)
    for nth in mark:
        network.plan_fault(port, nth, mark=True)
    for nth, late_s in (delay_s or {}).items():
        network.plan_fault(port, nth, delay_ns=round(late_s * 1e9))
    epochs, more = 0, 300  # what is under way at the end arrives
    while epochs < 20_000 and more:
        more -= datapath.step(np.array([np.inf])).flows_finished
        epochs += 1
    rows = network.sent_packets()
    datapath.close()
    return [((ns - rows[0][0]) / 1e9, number) for ns, _, number in rows]


def lost_packet(simulator: Simulator, stack: HostStack, epochs: int = 400) -> tuple[FloatArray, Records]:
    """One flow in congestion avoidance, without marks, that loses one packet after half of the epochs of 100 us.

    Returns `sender_window` [n_epochs, 3] after each, and the records.
    """
    topology = Dumbbell(pairs=1, host_rate_bps=2e9, buffer_bytes=4_000_000, mark_threshold_bytes=0)
    scenario = fixed(
        topology, flow("s0", "r0", 50_000_000), period_s=1e-4, transport=Transport(recovery="classic", min_rto_s=0.2)
    )
    datapath = simulator()
    datapath.start(scenario, scenario.flows(1), stack, 1)
    windows = []
    for epoch in range(epochs):
        if epoch == epochs // 2:
            drops(scenario, left__right=3)(datapath)
        datapath.step(np.array([np.inf]))
        windows.append(engine(datapath).sender_window(0))
    records = datapath.finish()
    datapath.close()
    return np.array(windows, dtype=float), records


def with_spec(simulator: Simulator, **fields: Any) -> Simulator:
    """The simulator with these fields in every `Spec`."""

    class Changed(simulator):  # type: ignore[valid-type, misc]
        @classmethod
        def spec_of(cls, *args: Any, **kwargs: Any) -> Any:
            return filled(super().spec_of(*args, **kwargs), **fields)

    return Changed


def windowed(simulator: Simulator, **params: int) -> Simulator:
    """The simulator with the controller for tests (tests/native/test_window.h) in place of any other."""
    return with_spec(simulator, transport="test_window", params=list(params.items()))


class Window:
    """A datapath whose only flow is driven by that controller."""

    def __init__(self, simulator: Simulator, scenario: Scenario, *, seed: int = 1, **params: int) -> None:
        self.datapath = windowed(simulator, **params)()
        self.datapath.start(scenario, scenario.flows(1), HostStack(), seed)

    def run(self, epochs: int) -> list[float]:
        """Goodput of each epoch in bits/s."""
        return [float(self.datapath.step(np.array([np.inf])).goodput_bps[0]) for _ in range(epochs)]

    def __enter__(self) -> "Window":
        return self

    def __exit__(self, *_: object) -> None:
        self.datapath.close()
