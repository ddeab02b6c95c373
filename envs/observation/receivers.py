# SPDX-License-Identifier: BSD-3-Clause
"""The observation of a receiver: its senders, whose flows meet in the port before it."""

from collections.abc import Iterable

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.receivers import Edges
from ncc.core.scenario import Scenario
from ncc.core.units import BITS_PER_BYTE
from ncc.envs.observation.spec import COLUMN_LOW, TABLE, ObservationSpec, entries
from ncc.harness.batch import ObsArray
from ncc.harness.controller import ReceiverRuleLimit


def rule_of(scenario: Scenario) -> ReceiverRuleLimit:
    """Return the rule of receivers with its own parameters, in the order that a scenario's hosts can tell."""
    return ReceiverRuleLimit(order="remaining" if scenario.nic.knows == "sizes" else "arrival")


class Rows:
    """The rows of a scenario's receivers: hosts that its traffic names as destinations, in the order of nodes."""

    def __init__(self, spec: ObservationSpec, scenario: Scenario) -> None:
        network = scenario.network()
        named = [getattr(traffic, "destinations", None) for _, traffic in scenario.workload]
        groups = [network.hosts if name is None else network.group(name) for name in named]
        self.nodes = np.array(sorted({host for group in groups for host in group}), np.int64)
        self.per_receiver = spec.rows_per_receiver
        hosts = [network.nodes[node].name for node in self.nodes]
        each = range(1, self.per_receiver + 1)
        self.names = tuple(f"{host}_{i}" if spec.neighbours == "pairs" else host for host in hosts for i in each)
        self._row_of = np.full(len(network.nodes), -1)
        self._row_of[self.nodes] = np.arange(len(self.nodes))
        self._rule = rule_of(scenario).build()
        self._rule.reset(scenario, 0)

    def __len__(self) -> int:
        return len(self.names)

    def place(self, edges: Edges) -> tuple[IntArray, IntArray, FloatArray]:
        """Place edges among the receivers and their senders, whatever the order of the rows.

        Returns:
            Number of its receiver, its place from 0 in the order of the rule, and the bytes ahead of it, [E] each.
        """
        receiver, ahead_bytes = self._row_of[edges.dst], self._rule.ahead_of(edges)
        order = np.lexsort((edges.src, ahead_bytes, receiver))
        place = np.empty(len(edges), np.int64)
        place[order] = np.arange(len(edges)) - np.searchsorted(receiver[order], receiver[order])
        return receiver, place, ahead_bytes


class ReceiverObserver:
    """An observer like `SharedObserver`, with the rows of `Rows`. It remembers nothing."""

    def __init__(self, spec: ObservationSpec) -> None:
        self.spec = spec
        entered = entries(spec, 0)
        self.obs_dim = len(entered)
        self._own = [e.feature for e in entered if "per" not in e.feature]
        self._each = [e.feature for e in entered if "per" in e.feature and e.neighbour == 0]

    def reset(self, scenario: Scenario, racks: range | None = None, *, seed: int = 0) -> None:
        """Take the receivers of a scenario; `racks` and `seed` are as for `SharedObserver`, and nothing is drawn."""
        network, self._racks = scenario.network(), racks
        self.rows = Rows(self.spec, scenario)
        ports = [network.down_port(node) for node in self.rows.nodes.tolist()]
        self._buffer_bytes = np.array([network.reach_bytes(port) for port in ports], np.float64)
        rate_bps = np.array([network.port_rate_bps(port) for port in ports])
        self._units = {
            "one": np.ones(len(ports)),
            "period": np.full(len(ports), scenario.period_s),
            "port_bytes": rate_bps * scenario.period_s / BITS_PER_BYTE,
        }

    def observe(self, measurement: Measurement | Measurements) -> ObsArray:
        """Return a new array [rows, obs_dim] or [n_racks, rows, obs_dim], float32, from `COLUMN_LOW` to the ceiling.

        Raises:
            DatapathError: a measured number is not finite.
        """
        if isinstance(measurement, Measurement):
            return self._observe(measurement.edges, f"epoch {measurement.epoch}")
        where = [
            f"rack {rack}: epoch {epoch}" for rack, epoch in zip(self._racks or (), measurement.epoch, strict=True)
        ]
        return np.stack([self._observe(*each) for each in zip(_edges(measurement), where, strict=True)])

    def restart(self, row: int, measurement: Measurement, *, seed: int = 0) -> ObsArray:
        """Return the first observation [rows, obs_dim] of one of several racks."""
        return self.observe(measurement)

    def flows(self, measurement: Measurement | Measurements) -> FloatArray:
        """Return the number of known flows that are not complete, of each receiver [..., receivers]."""
        n = len(self.rows.nodes)
        found: list[FloatArray] = [
            np.bincount(np.searchsorted(self.rows.nodes, edges.dst), edges.flows, minlength=n).astype(np.float64)
            for edges in _edges(measurement)
        ]
        return found[0] if isinstance(measurement, Measurement) else np.stack(found)

    def _observe(self, edges: Edges, where: str) -> ObsArray:
        receiver, place, ahead_bytes = self.rows.place(edges)
        n, seen = len(self.rows.nodes), self.spec.senders
        columns = {
            "senders": np.ones(len(edges)),
            "flows": edges.flows.astype(np.float64),
            "waiting": edges.waiting_bytes,
            "next": edges.next_bytes,
            "received": edges.received_bytes,
            "age": edges.age_s,
            "ahead": ahead_bytes,
        }
        least_bytes = np.full(n, np.inf)
        np.minimum.at(least_bytes, receiver, edges.next_bytes)
        least_bytes[np.bincount(receiver, minlength=n) == 0] = 0
        own = {name: np.bincount(receiver, column, minlength=n) for name, column in columns.items()}
        rest = {name: np.bincount(receiver, column * (place >= seen), minlength=n) for name, column in columns.items()}
        values = {"receiver": {**own, "next": least_bytes, "buffer": self._buffer_bytes}, "rest": rest}
        whole = [self._scaled(f["of"], values[f["kind"]][f["of"]], np.arange(n)) for f in self._own]
        each = [
            np.ones(len(edges)) if f["kind"] == "here" else self._scaled(f["of"], columns[f["of"]], receiver)
            for f in self._each
        ]
        near, kept = np.zeros((n, seen, len(each))), place < seen
        near[receiver[kept], place[kept]] = np.stack(each, axis=-1)[kept]
        per = self.rows.per_receiver
        rows = np.repeat(np.stack(whole, axis=-1), per, axis=0), near.reshape(n * per, -1)
        obs = np.concatenate(rows, axis=-1)
        if not np.isfinite(obs).all():
            raise DatapathError(f"{where}: the datapath measured a number that is not finite (edges)")
        return np.clip(obs, COLUMN_LOW, self.spec.ceiling).astype(np.float32)

    def _scaled(self, name: str, column: FloatArray, receiver: IntArray) -> FloatArray:
        unit, scale = self._units[TABLE["edges"][name]["unit"]], getattr(self.spec, TABLE["edges"][name]["scale"])
        scaled: FloatArray = np.log1p(column / unit[receiver]) / np.log1p(scale)
        return scaled


def _edges(measurement: Measurement | Measurements) -> Iterable[Edges]:
    if isinstance(measurement, Measurement):
        return (measurement.edges,)
    return (measurement[row].edges for row in range(len(measurement.epoch)))
