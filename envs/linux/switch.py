# SPDX-License-Identifier: BSD-3-Clause
"""`Switch`: the program at every port of a rack (bpf/switch.bpf.c), with its settings and counters."""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroute2 import IPRoute

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import IntArray, PortRecords, records
from ncc.core.topology import Red, Topology
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux.libbpf import Object, Program, libbpf, reason
from ncc.envs.linux.objects import bpf_object
from ncc.envs.linux.queues import EGRESS

PORTS_MAX = 256
"""Most directed ports of a rack, including those of hosts."""
POOLS_MAX = 16
POOL_PORTS_MAX = 32
FIRST_INDEX = 16
"""Index of port 0's network device. The program finds its port by this index, which must be unique in a rack."""
NO_POOL = 0xFFFFFFFF
ALPHA_ONE = 1024
PROBABILITY_ONE = 2**32

_RED = [("min_bytes", "<u8"), ("max_bytes", "<u8"), ("max_prob", "<u8")]
PORT = np.dtype(
    [
        *((name, "<u8") for name in ("rate_bytes_per_s", "frame_overhead_bytes", "size_bytes", "mark_threshold_bytes")),
        ("red", _RED),
        *((name, "<u4") for name in ("pool", "finite")),
    ]
)
"""`struct ncc_switch_port`."""
POOL = np.dtype(
    [
        *((name, "<u8") for name in ("size_bytes", "alpha")),
        ("red", _RED),
        *((name, "<u4") for name in ("n_ports", "unused")),
        ("ports", "<u4", (POOL_PORTS_MAX,)),
    ]
)
"""`struct ncc_switch_pool`."""
STATS = np.dtype(
    [
        (name, "<u8")
        for name in (
            "now_ns", "joined_pkts", "joined_bytes", "tx_pkts", "tx_bytes", "marked_pkts", "dropped_pkts",
            "dropped_data_pkts", "queue_bytes", "queue_pkts", "queue_max_bytes", "queue_byte_ns", "queue_pkt_ns",
            "largest_bytes",
        )
    ]
)  # fmt: skip
"""`struct ncc_switch_stats`: counts since the rack was built, bytes of IP packets."""
STRUCTS = {"ncc_switch_port": PORT, "ncc_switch_pool": POOL, "ncc_switch_stats": STATS}
"""Row types by the names of their structs in C."""

Stats = npt.NDArray[Any]
"""Rows of `STATS`."""


def check_switch(topology: Topology) -> None:
    """Raise `ConfigError` that names the first thing that ports ask for and the program does not offer."""
    if 2 * len(topology.links) > PORTS_MAX:
        raise ConfigError(
            f"The Linux rack takes at most {PORTS_MAX // 2} links, got {len(topology.links)}: a machine's cores carry "
            "no more."
        )
    if len(topology.pools) > POOLS_MAX:
        raise ConfigError(f"The Linux rack takes at most {POOLS_MAX} shared buffers, got {len(topology.pools)}.")
    for index, members in enumerate(_members(topology)):
        if len(members) > POOL_PORTS_MAX:
            raise ConfigError(
                f"On the Linux rack at most {POOL_PORTS_MAX} ports share a buffer, got {len(members)} of pool {index}: "
                "set ports_per_pool."
            )
    for port in range(2 * len(topology.links)):
        buffer = topology.port_buffer(port)
        for field in ("control_first", "mark_on_departure"):
            if buffer is not None and getattr(buffer, field):
                raise ConfigError(
                    f"The Linux rack does not offer {field}, which port {topology.port_name(port)} asks for: set it to "
                    "false, or use a simulator."
                )


def _members(topology: Topology) -> list[list[int]]:
    """List the ports of each pool."""
    members: list[list[int]] = [[] for _ in topology.pools]
    for port in range(2 * len(topology.links)):
        buffer = topology.port_buffer(port)
        if buffer is not None and buffer.pool is not None:
            members[buffer.pool].append(port)
    return members


def _red(red: Red | None) -> tuple[int, int, int]:
    return (0, 0, 0) if red is None else (red.min_bytes, red.max_bytes, round(red.max_prob_frac * PROBABILITY_ONE))


def port_rows(topology: Topology, frame_overhead_bytes: int) -> npt.NDArray[Any]:
    """Return rows [n_ports] of `PORT`, the program's settings of each directed port."""
    rows = np.zeros(2 * len(topology.links), PORT)
    rows["frame_overhead_bytes"], rows["pool"] = frame_overhead_bytes, NO_POOL
    for port, row in enumerate(rows):
        row["rate_bytes_per_s"] = max(1, round(topology.port_rate_bps(port) / BITS_PER_BYTE))
        buffer = topology.port_buffer(port)
        if buffer is not None:
            row["finite"] = 1
            row["size_bytes"], row["mark_threshold_bytes"] = buffer.size_bytes, buffer.mark_threshold_bytes
            row["red"] = _red(buffer.red)
            row["pool"] = NO_POOL if buffer.pool is None else buffer.pool
    return rows


def pool_rows(topology: Topology) -> npt.NDArray[Any]:
    """Return rows [n_pools] of `POOL`, the program's settings of each shared buffer."""
    rows = np.zeros(len(topology.pools), POOL)
    for row, pool, members in zip(rows, topology.pools, _members(topology), strict=True):
        row["size_bytes"], row["alpha"], row["red"] = pool.size_bytes, round(pool.alpha * ALPHA_ONE), _red(pool.red)
        row["n_ports"] = len(members)
        row["ports"][: len(members)] = members
    return rows


class _RunOptions(ctypes.Structure):
    """`struct bpf_test_run_opts`, of which only the size is set."""

    _fields_ = (("size", ctypes.c_size_t), ("rest", ctypes.c_uint64 * 9))


_NOTHING = _RunOptions(size=ctypes.sizeof(_RunOptions))
_OPTIONS = ctypes.byref(_NOTHING)


class Switch:
    """The program, loaded for a topology; `attach` puts it at its ports. `close` may be called twice.

    Raises:
        ConfigError: the topology asks for something that the program does not offer (`check_switch`).
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, topology: Topology, frame_overhead_bytes: int) -> None:
        check_switch(topology)
        self._sample, self._stats = -1, np.zeros(0, STATS)
        self._object = Object(bpf_object("switch"))
        try:
            self._object.load()
            rows, pools = port_rows(topology, frame_overhead_bytes), pool_rows(topology)
            self._object.map("ports").view(PORT)[: len(rows)] = rows
            self._object.map("pools").view(POOL)[: len(pools)] = pools
            self._stats = self._object.map("port_stats").view(STATS)[: len(rows)]
            self._join = self._object.program("ncc_switch_join").fd
            self._sample = self._object.program("ncc_switch_sample").fd
        except BaseException:
            self.close()
            raise

    def attach(self, route: IPRoute, port: int) -> None:
        """Put the program at a port; `route` is connected to the namespace of its node."""
        device = FIRST_INDEX + port
        route.tc("add", "clsact", device)
        route.tc(
            "add-filter",
            "bpf",
            device,
            ":1",
            fd=self._join,
            name="ncc_switch",
            parent=EGRESS,
            classid=1,
            direct_action=True,
        )

    def sample(self) -> Stats:
        """Return counters [n_ports] of `STATS` of all ports, in a view that the next call overwrites.

        This takes microseconds.

        Raises:
            DatapathError: the switch is closed.
        """
        if self._sample < 0:
            raise DatapathError("The rack is closed: its ports can no longer be sampled.")
        if error := libbpf().lib.bpf_prog_test_run_opts(self._sample, _OPTIONS):
            raise DatapathError(f"The kernel would not sample the ports of the rack: {reason(error)}.")
        return self._stats

    def programs(self) -> tuple[Program, ...]:
        """Return the programs in the kernel: the one at every port, and the one that samples the ports."""
        return tuple(self._object.program(name) for name in ("ncc_switch_join", "ncc_switch_sample"))

    def records(self) -> PortRecords:
        """Return the totals of every directed port so far."""
        stats = self.sample().astype(STATS)
        return records(
            PortRecords,
            tx_pkts=_signed(stats["tx_pkts"]),
            tx_bytes=_signed(stats["tx_bytes"]),
            dropped_pkts=_signed(stats["dropped_pkts"]),
            dropped_data_pkts=_signed(stats["dropped_data_pkts"]),
            marked_pkts=_signed(stats["marked_pkts"]),
            queue_delay_sum_s=stats["queue_pkt_ns"] / NS_PER_S,
            queue_max_bytes=_signed(stats["queue_max_bytes"]),
        )

    def close(self) -> None:
        """Unload the program; ports that still have it keep it until their namespace is removed."""
        self._sample, self._stats = -1, np.zeros(0, STATS)  # the descriptor's number may be reused
        self._object.close()


def _signed(column: npt.NDArray[np.uint64]) -> IntArray:
    return column.astype(np.int64)
