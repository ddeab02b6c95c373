# SPDX-License-Identifier: BSD-3-Clause
"""Hosts' columns from reports of real connections: worked arithmetic, without a kernel."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.signals import names
from ncc.envs.linux import layout
from ncc.envs.linux.extension import LIVE_COLUMNS, extension, reports_of
from ncc.envs.linux.live import InterfaceCounter

MS = 1_000_000
HOSTS = 2
REALS, COUNTS = names("host", count=False), names("host", count=True)


class Kernel:
    """Writes reports as the shim does."""

    def __init__(self, slots: int = 8) -> None:
        self.reports = np.zeros(slots, layout.REPORT)
        self.columns = np.zeros((len(LIVE_COLUMNS), slots), np.int64)
        self.reals = np.empty((len(REALS), HOSTS))
        self.counts = np.empty((len(COUNTS), HOSTS), np.int64)
        self.connections = self.connected(self.columns, self.reals)

    def connected(self, columns: IntArray, reals: FloatArray) -> Any:
        return extension().Connections(
            reports=reports_of(self.reports),
            columns=columns,
            rtt_s=np.full(HOSTS, 1e-3),
            reals=reals,
            counts=self.counts,
        )

    def report(self, slot: int, **fields: Any) -> None:
        self.reports["seq"][slot] += 2
        for name, value in ({"state": layout.LIVE} | fields).items():
            self.reports[name][slot] = value

    def measure(self, now_ns: int, used: int = 8) -> Any:
        return self.connections.measure(used, now_ns, 8.0)

    def column(self, name: str) -> list[float]:
        rows = dict(zip((*REALS, *COUNTS), (*self.reals, *self.counts), strict=True))
        found: list[float] = rows[name].tolist()
        return found


def test_columns_are_of_what_each_host_s_connections_did_since_the_last_time() -> None:
    """Over 8 s, so that bits per second are bytes."""
    kernel = Kernel()
    kernel.report(0, generation=1, host=0, began_ns=1 * MS, updated_ns=2 * MS, sent_bytes=3000,
                  delivered_bytes=1000, unsent_bytes=700, rtt_sum_ns=500, rtt_samples=2)  # fmt: skip
    kernel.report(2, generation=4, host=1, began_ns=1 * MS, updated_ns=2 * MS, sent_bytes=100)
    kernel.report(3, generation=1, host=0, began_ns=2 * MS, updated_ns=2 * MS, unsent_bytes=300)
    kernel.report(4, generation=1, host=0xFFFFFFFF, updated_ns=2 * MS, sent_bytes=10**9, unsent_bytes=5)
    assert kernel.measure(5 * MS) == (3, 3, [], 0)
    assert kernel.column("goodput_bps") == [1000, 0]
    assert (kernel.column("rtt_s"), kernel.column("rtt_samples")) == ([250e-9, 1e-3], [2, 0])
    assert kernel.column("queued_bytes") == [1000, 0]
    assert kernel.column("next_bytes") == [300, 0]
    assert kernel.column("queued_flows") == [2, 0]
    assert kernel.column("wait_s") == pytest.approx([3e-3, 0])  # slot 0 has just sent, slot 3 has waited since it began
    kernel.report(0, updated_ns=6 * MS, sent_bytes=3500, retrans_bytes=500, unsent_bytes=700)
    assert kernel.measure(9 * MS) == (1, 3, [], 0)
    assert kernel.column("wait_s") == pytest.approx([11e-3, 0])  # sending again lets nothing new out
    assert kernel.columns[LIVE_COLUMNS.index("slot"), :3].tolist() == [0, 2, 3]


def test_a_slot_s_next_connection_starts_from_nothing_and_ended_ones_are_told_once() -> None:
    kernel = Kernel()
    kernel.report(1, generation=1, host=0, updated_ns=1, sent_bytes=9000, delivered_bytes=9000, unsent_bytes=50)
    kernel.measure(1 * MS)
    kernel.report(1, state=layout.FINISHED, updated_ns=2, sent_bytes=9500, unsent_bytes=50)
    assert kernel.measure(2 * MS) == (1, 0, [1], 0)
    assert kernel.column("queued_flows") == [0, 0]  # an ended connection waits for nothing
    kernel.report(1, state=layout.FREE)
    assert kernel.measure(3 * MS) == (0, 0, [], 0)
    kernel.report(1, generation=2, updated_ns=9, sent_bytes=700, delivered_bytes=300)
    kernel.measure(4 * MS)
    assert kernel.column("goodput_bps") == [300, 0]


def test_a_report_that_is_being_written_is_left_to_the_next_period() -> None:
    kernel = Kernel()
    kernel.report(0, generation=1, host=0, updated_ns=1, delivered_bytes=1000)
    kernel.report(1, generation=1, host=0, updated_ns=1, delivered_bytes=10)
    kernel.reports["seq"][0] += 1
    assert kernel.measure(1 * MS) == (1, 1, [], 1)
    assert kernel.column("goodput_bps") == [10, 0]
    kernel.reports["seq"][0] += 1
    assert kernel.measure(2 * MS) == (1, 2, [], 0)
    assert kernel.column("goodput_bps") == [1000, 0]
    assert kernel.measure(3 * MS, used=0) == (0, 0, [], 0)


def test_arrays_of_another_type_are_refused_not_copied() -> None:
    kernel = Kernel()
    with pytest.raises(TypeError):
        kernel.connected(kernel.columns.astype(np.float64), kernel.reals)


def test_an_interface_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no network interface 'nosuch0'"):
        InterfaceCounter("nosuch0")
    counter = InterfaceCounter("lo")
    assert counter() >= 0
    counter.close()
    counter.close()
