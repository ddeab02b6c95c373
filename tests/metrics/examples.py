# SPDX-License-Identifier: BSD-3-Clause
"""Small scenarios, flows and epochs to compute by hand."""

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from ncc.core.flows import FloatArray, FlowRecords, FlowTable, IntArray, PortRecords
from ncc.core.measurement import COLUMNS, PROGRESS, Epochs
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import Rack
from ncc.core.workload import Permutation

HOST = 2
"""Node id of the first host of a `Rack`: tor and core come first."""


def rack(
    hosts: int = 2,
    transport: Transport | None = None,
    nic: Nic | None = None,
    duration_s: float = 0.1,
    **rates: float,
) -> Scenario:
    """`hosts` hosts at 1 Gbps, an uplink of 4, one remote of 4 (or `rates`), 10 us a link."""
    return Scenario(
        name="test",
        topology=Rack(hosts=hosts, remotes=1, **rates),  # type: ignore[arg-type]
        workload=(("one", Permutation(hosts="hosts", size_bytes=1)),),
        duration_s=duration_s,
        transport=transport or Transport(recovery="classic"),
        nic=nic or Nic(),
    )


def flow_table(start_s: list[float], size_bytes: list[int], src: int = HOST, dst: int = HOST + 2) -> FlowTable:
    n = len(start_s)
    return FlowTable(
        start_s=np.array(start_s, dtype=np.float64),
        src=np.full(n, src),
        dst=np.full(n, dst),
        size_bytes=np.array(size_bytes, dtype=np.int64),
        traffic=np.zeros(n, np.int64),
    )


def flow_records(finish_s: list[float], **columns: list[int]) -> FlowRecords:
    n = len(finish_s)
    values: dict[str, npt.NDArray[np.float64 | np.int64]] = {f.name: np.zeros(n, np.int64) for f in fields(FlowRecords)}
    values |= {name: np.array(column) for name, column in columns.items()}
    values["finish_s"] = np.array(finish_s, dtype=np.float64)
    return FlowRecords(**values)  # type: ignore[arg-type]


def port_records(scenario: Scenario, **columns: dict[str, float]) -> PortRecords:
    """Zeros but for, by column, the ports named."""
    network = scenario.network()
    values = {f.name: np.zeros(2 * len(network.links)) for f in fields(PortRecords)}
    for column, by_port in columns.items():
        for port, value in by_port.items():
            values[column][network.port(port)] = value
    return PortRecords(**values)  # type: ignore[arg-type]


def epochs(scenario: Scenario, n: int, **columns: npt.ArrayLike) -> Epochs:
    """`n` epochs after the measurement at time 0; columns broadcast to [n, agents] or [n, neighbourhoods]."""
    network = scenario.network()
    values: dict[str, FloatArray | IntArray] = {}
    for name in (*PROGRESS, *COLUMNS):
        width = len(network.neighbourhoods) if name.startswith("uplink") else len(network.agent_hosts)
        value = np.zeros((n + 1, width))
        value[1:] = np.asarray(columns.get(name, 0.0))
        values[name] = value
    return Epochs(time_s=np.arange(n + 1, dtype=np.float64) * scenario.period_s, columns=values)
