# SPDX-License-Identifier: BSD-3-Clause
"""`Switch`: the program at every port of a rack (bpf/switch.bpf.c), with its settings and counters."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.baselines.registry import check_named, kernel_programs
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import PortRecords, records
from ncc.core.topology import Program, Red, Topology
from ncc.core.units import BITS_PER_BYTE, NS_PER_S
from ncc.envs.linux import device
from ncc.envs.linux.device import EGRESS, INGRESS
from ncc.envs.linux.extension import bpf, memory, open_object
from ncc.envs.linux.netlink import Route
from ncc.envs.linux.objects import require_built

PORTS_MAX = 256
"""Most directed ports of a rack, including those of hosts."""
POOLS_MAX = 16
POOL_PORTS_MAX = 32
FIRST_INDEX = 16
"""Index of port 0's network device. The program finds its port by this index, which must be unique in a rack."""
TAG_PREFERENCE, PREFERENCE = 0xBFFF, 0xC000
"""Preferences of the filters of tags and of the switch. The lowest runs first: a host's queue (`device.PREFERENCE`),
then tags, then the switch, which reads them."""
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
PROGRAM = np.dtype([("params", "<u8", (16,)), ("mtu_bytes", "<u4"), ("unused", "<u4")])
"""`struct ncc_switch_program`."""
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
STRUCTS = {
    "ncc_switch_port": PORT, "ncc_switch_pool": POOL, "ncc_switch_program": PROGRAM, "ncc_switch_stats": STATS,
}  # fmt: skip
"""Row types by the names of their structs in C."""

_TOTALS = ("tx_pkts", "tx_bytes", "dropped_pkts", "dropped_data_pkts", "marked_pkts")

Stats = npt.NDArray[Any]
"""Rows of `STATS`."""


def check_switch(topology: Topology) -> None:
    """Raise `ConfigError` naming the first setting of ports that the program does not offer."""
    if 2 * len(topology.links) > PORTS_MAX:
        raise ConfigError(
            f"The Linux rack takes at most {PORTS_MAX // 2} links, got {len(topology.links)}: use fewer hosts, or a "
            "simulator."
        )
    if len(topology.pools) > POOLS_MAX:
        raise ConfigError(f"The Linux rack takes at most {POOLS_MAX} shared buffers, got {len(topology.pools)}.")
    for index, members in enumerate(_members(topology)):
        if len(members) > POOL_PORTS_MAX:
            raise ConfigError(
                f"On the Linux rack at most {POOL_PORTS_MAX} ports share a buffer, got {len(members)} of pool {index}: "
                "set ports_per_pool."
            )
    _check_programs(topology)
    for port in range(2 * len(topology.links)):
        buffer = topology.port_buffer(port)
        for field in ("control_first", "mark_on_departure"):
            if buffer is not None and getattr(buffer, field):
                raise ConfigError(
                    f"The Linux rack does not offer {field}, which port {topology.port_name(port)} asks for: set it to "
                    "false, or use a simulator."
                )
        if buffer is not None and buffer.programs != programs_of(topology):
            raise ConfigError(
                f"The Linux rack runs the same programs at all ports, and port {topology.port_name(port)} has others: "
                "use a simulator."
            )


def programs_of(topology: Topology) -> tuple[Program, ...]:
    """Return the programs of the topology's first switch port."""
    buffers = (topology.port_buffer(port) for port in range(2 * len(topology.links)))
    return next((buffer.programs for buffer in buffers if buffer is not None), ())


def _check_programs(topology: Topology) -> None:
    programs = programs_of(topology)
    for program in programs:
        if program.name not in (known := kernel_programs()):
            raise ConfigError(
                f"The Linux rack does not run program {program.name}: leave it out of programs, or use a simulator; it "
                f"runs {' and '.join(known)}."
            )
        check_named("program of a switch", program.name, program.params)
    if len(programs) > 1:
        raise ConfigError(f"The Linux rack runs one program at a port, got {len(programs)}: use a simulator.")


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


def program_row(program: Program, mtu_bytes: int) -> npt.NDArray[Any]:
    """Return a row [1] of `PROGRAM`: the parameters of the program that runs at the ports, and the MTU."""
    row = np.zeros(1, PROGRAM)
    values = list(check_named("program of a switch", program.name, program.params).values())
    row["params"][0, : len(values)], row["mtu_bytes"] = values, mtu_bytes
    return row


class Switch:
    """The loaded program of all ports of a topology that `check_switch` accepts. `close` may be called twice.

    Attributes:
        programs: file descriptors of the programs at every port, and of the one that samples the ports, by name.

    Raises:
        DatapathError: the program is not built, or the kernel refuses it.
    """

    def __init__(self, topology: Topology, frame_overhead_bytes: int, mtu_bytes: int = 1500) -> None:
        self._before: Stats | None = None
        names = [program.name for program in programs_of(topology)]
        built, wanted = require_built(), "_".join(["switch", *names])
        if wanted not in built:
            raise DatapathError(
                f"The program {wanted} for the kernel was not built: run `make build`, or reinstall ncc."
            )
        rows, pools = port_rows(topology, frame_overhead_bytes), pool_rows(topology)
        sections = {".rodata.program": program_row(one, mtu_bytes).tobytes() for one in programs_of(topology)}  # noqa: B035
        self._object = open_object(built[wanted], sections)
        memory(self._object, "ports", PORT)[: len(rows)] = rows
        memory(self._object, "pools", POOL)[: len(pools)] = pools
        self._stats = memory(self._object, "port_stats", STATS)[: len(rows)]
        self.programs: dict[str, int] = dict(self._object.programs)

    def attach(self, route: Route, port: int, tags: int | None = None) -> None:
        """Attach the program to a port; `route` is connected to the namespace of the port's node.

        `tags` is the descriptor of a host's tag program, which is attached too.
        """
        index = FIRST_INDEX + port
        route.send(device.clsact(index))
        for program, parent, preference in (
            (self.programs.get("ncc_switch_join"), EGRESS, PREFERENCE),
            (self.programs.get("ncc_switch_reverse"), INGRESS, PREFERENCE),
            (tags, EGRESS, TAG_PREFERENCE),
        ):
            if program is not None:
                route.send(device.bpf_filter(index, program, name=b"ncc_switch", parent=parent, preference=preference))

    def sample(self) -> Stats:
        """Return counters [n_ports] of `STATS` of all ports, in a view that the next call overwrites.

        This takes microseconds.
        """
        bpf().run(self.programs["ncc_switch_sample"])
        return self._stats

    def begin(self) -> None:
        """Exclude all packets so far from the records, except in `queue_max_bytes`."""
        self._before = self.sample().astype(STATS)

    def records(self) -> PortRecords:
        """Return the totals of every directed port, since `begin` if that was called."""
        stats = self.sample().astype(STATS)
        if self._before is not None:
            for name in (*_TOTALS, "queue_pkt_ns"):
                stats[name] -= self._before[name]
        columns = {name: stats[name].astype(np.int64) for name in (*_TOTALS, "queue_max_bytes")}
        return records(
            PortRecords,
            queue_delay_sum_s=stats["queue_pkt_ns"] / NS_PER_S,
            paused_s=np.zeros(len(stats)),
            trimmed_pkts=np.zeros(len(stats), np.int64),
            **columns,
        )

    def close(self) -> None:
        """Unload the program; ports that still have it keep it until their namespace is removed."""
        self.programs, self._stats = {}, np.zeros(0, STATS)  # a descriptor's number may be reused
        self._object.close()
