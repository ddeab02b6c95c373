# SPDX-License-Identifier: BSD-3-Clause
"""`Traffic`: the program that sends a run's flows through real sockets, and the table that it shares with Python.

The program (programs/traffic.c) has both ends of every flow. Its table is in memory that both sides map, so that
reading it takes no system call.
"""

import mmap
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from select import select
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncc.core.errors import DatapathError
from ncc.core.flows import FlowTable, Graph, IntArray
from ncc.core.units import NS_PER_S
from ncc.envs.linux import objects

MAGIC = 0x6E636334
READY_WITHIN_S = 20.0
"""Longest time from the program's start until it is ready, and longest wait for each later answer."""
TABLE = "ncc-traffic"
"""Name of the table's file in /proc."""
PORT = 5001
"""TCP port on which every receiving host listens."""

WAITING, CONNECTING, SENDING, HANDED, DELIVERED, DONE, FAILED = range(7)
"""Values of `FLOW['state']`."""
RUNNING, ALL_DONE, OUT_OF_TIME = range(3)
"""Values of `HEADER['over']`."""


def _fields(kind: str, names: str) -> list[tuple[str, str]]:
    return [(name, kind) for name in names.split()]


HEADER = np.dtype(
    [
        *_fields("<u4", "magic header_bytes host_bytes flow_bytes graph_bytes requests n_hosts n_flows"),
        *_fields("<u8", "start_ns deadline_ns sample_ns"),
        *_fields("<u4", "send_buffer_bytes receive_buffer_bytes ecn"),
        ("nice", "<i4"),
        *_fields("<u4", "over connections_per_pair"),
        ("congestion", "S16"),
        *_fields("<u4", "marks tells fins n_fronts"),
        ("late_ns", "<u8"),
        ("front", "S16"),
        ("front_params", "<u8", (16,)),
        *_fields("<u4", "n_started n_handshakes"),
    ]
)
"""`struct ncc_traffic_header`."""
HOST = np.dtype([("address", "V4"), ("pad", "<u4"), ("netns", "S56")])
"""`struct ncc_traffic_host`; the address is in network order."""
FLOW = np.dtype(
    [
        *_fields("<u8", "start_ns size_bytes"),
        *_fields("<u4", "src dst state"),
        ("error", "<i4"),
        *_fields("<u8", "opened_ns finish_ns handed_bytes received_bytes acked_bytes left_bytes rtt_sum_us"),
        *_fields("<u4", "rtt_samples min_rtt_us sent_pkts retransmitted_pkts timeouts ce_pkts chunk_bytes every_us"),
        *_fields("<u4", "answer unused"),
    ]
)
"""`struct ncc_traffic_flow`."""
FRONT = np.dtype(_fields("<u8", "rate_bytes_per_s buffer_bytes base_rtt_ns packet_bytes"))
"""`struct ncc_traffic_front`."""
GRAPH = np.dtype(
    [
        ("think_ns", "<i8"),
        ("wire_bytes", "<u8"),
        *_fields("<i4", "group after query_of end_of"),
        *_fields("<u4", "started unused"),
    ]
)
"""`struct ncc_traffic_graph`, of which each field is a column."""
STRUCTS = {
    "ncc_traffic_header": HEADER,
    "ncc_traffic_host": HOST,
    "ncc_traffic_flow": FLOW,
    "ncc_traffic_front": FRONT,
    "ncc_traffic_graph": GRAPH,
}
"""Row types by the names of their structs in C."""


@dataclass(frozen=True)
class Sender:
    """A host of the traffic program: a network namespace under /var/run/netns and its address there."""

    netns: str
    address: str


@dataclass(frozen=True)
class Fronts:
    """Front ends of the hosts that ask (baselines/front.h)."""

    name: str
    params: tuple[int, ...]
    """All parameters, in the order of the header."""
    late_s: float
    """Time from which on an answer is late."""
    ports: NDArray[Any]
    """Rows [n] of `FRONT`."""
    query_of: IntArray
    """Row of the query that a flow answers [n_flows]; -1: none."""
    end_of: IntArray
    """Row in `ports` of who asks a query [n_flows]; -1: no query."""
    wire_bytes: IntArray
    """Bytes of each flow on the line [n_flows]."""


@dataclass(frozen=True)
class TrafficOptions:
    """Options of the traffic program."""

    congestion: str
    """TCP_CONGESTION of both ends of every flow."""
    deadline_s: float
    """Seconds after time 0 at which the program ends, whatever is left."""
    send_buffer_bytes: int = 4_194_304
    """Send buffer of each socket; 0: the kernel's, which grows with the window."""
    receive_buffer_bytes: int = 4_194_304
    ecn: int = 1
    """Value of net.ipv4.tcp_ecn in every host's namespace: 0 off, 1 requested, 2 accepted only."""
    sample_s: float = 0.0
    """Period at which TCP_INFO of live flows is read; 0: only at a flow's end and by `Traffic.snapshot`."""
    nice: int = 0
    """Nice value of the program, -20 to 19. (With SCHED_FIFO it could use so much of a core that the kernel throttles
    all real-time threads.)"""
    connections_per_pair: int = 0
    """Connections between each ordered pair of hosts that has flows, open before `begin` and kept for its flows; 0:
    each flow opens its own. See `ncc.core.scenario.Transport`."""
    announced_bytes: int = 0
    """Most bytes of a first write that a sender announces to the host's queue (`ncc.envs.linux.queue`);
    `stack.WHOLE_SIZES`: the flow's size; 0: nothing."""
    pieces: tuple[IntArray, IntArray] | None = None
    """Pieces in which applications write each flow (`ncc.core.writes.pieces`); None: at once."""
    marks: bool = True
    """True gives a flow's connection its row + 1 as SO_MARK, which identifies the flow to the shim."""
    fins: bool = False
    """True makes a sender close its side after its last byte; programs of ports count flows by that FIN."""
    fronts: Fronts | None = None
    """Front ends of requests; None: queries leave at once."""
    cores: tuple[int, ...] = ()
    """Cores of the program; empty: any."""


class Traffic:
    """A run's flows, which start with `begin`. Errors are `DatapathError` unless stated otherwise.

    The program ends with the thread that made it.

    Args:
        hosts: hosts of the flows.
        flows: flows to send; with a graph, requests.
        src: row in `hosts` of each flow's sender, shape [n_flows].
        dst: row in `hosts` of each flow's receiver, shape [n_flows].
        options: options of the program.

    Attributes:
        flows: rows [n_flows] of `FLOW`, which the program writes at any time.
    """

    def __init__(
        self, hosts: Sequence[Sender], flows: FlowTable, src: IntArray, dst: IntArray, options: TrafficOptions
    ) -> None:
        self._fd = self._alive = -1
        self._process: subprocess.Popen[bytes] | None = None
        rows = self._make_table(hosts, len(flows), 0 if options.fronts is None else len(options.fronts.ports))
        header, self.flows = self.header, rows
        header["deadline_ns"] = round(options.deadline_s * 1e9)
        header["sample_ns"] = round(options.sample_s * 1e9)
        for name in ("send_buffer_bytes", "receive_buffer_bytes", "ecn", "nice", "connections_per_pair"):
            header[name] = getattr(options, name)
        header["marks"], header["tells"], header["fins"] = options.marks, options.announced_bytes, options.fins
        header["congestion"] = options.congestion.encode()
        rows["start_ns"] = np.rint(flows.start_s * 1e9).astype(np.uint64)
        if options.pieces is not None:
            chunk_bytes, every_ns = options.pieces
            rows["chunk_bytes"], rows["every_us"] = chunk_bytes, np.maximum(every_ns // 1000, 1)
        rows["size_bytes"], rows["src"], rows["dst"] = flows.size_bytes, src, dst
        if flows.graph is not None:
            self._set_graph(flows.graph, options.fronts)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program
        try:
            self._launch(options)
        except BaseException:
            self.close()
            raise

    def _set_graph(self, graph: Graph, fronts: Fronts | None) -> None:
        self.header["requests"] = 1
        self.flows["answer"] = graph.answer
        columns = self._graph
        columns["group"][:], columns["after"][:] = graph.group, graph.after
        columns["think_ns"][:] = np.rint(graph.think_s * NS_PER_S)
        columns["query_of"][:] = columns["end_of"][:] = -1
        if fronts is not None:
            self.header["front"], self.header["late_ns"] = fronts.name.encode(), round(fronts.late_s * NS_PER_S)
            self.header["front_params"][0, : len(fronts.params)] = fronts.params
            self._fronts[:] = fronts.ports
            for name in ("query_of", "end_of", "wire_bytes"):
                columns[name][:] = getattr(fronts, name)

    def _make_table(self, hosts: Sequence[Sender], n_flows: int, n_fronts: int) -> NDArray[Any]:
        size = HEADER.itemsize + len(hosts) * HOST.itemsize + n_flows * (FLOW.itemsize + GRAPH.itemsize)
        size += n_fronts * FRONT.itemsize
        self._fd = os.memfd_create(TABLE, os.MFD_CLOEXEC)
        os.ftruncate(self._fd, size)
        table = mmap.mmap(self._fd, size)
        self.header = np.frombuffer(table, HEADER, 1)[0:1]
        """Row [1] of `HEADER`."""
        self.header["magic"] = MAGIC
        self.header["header_bytes"], self.header["host_bytes"] = HEADER.itemsize, HOST.itemsize
        self.header["flow_bytes"], self.header["graph_bytes"] = FLOW.itemsize, GRAPH.itemsize
        self.header["n_hosts"], self.header["n_flows"], self.header["n_fronts"] = len(hosts), n_flows, n_fronts
        rows = np.frombuffer(table, HOST, len(hosts), HEADER.itemsize)
        for row, host in zip(rows, hosts, strict=True):
            row["address"], row["netns"] = IPv4Address(host.address).packed, host.netns.encode()
        at = HEADER.itemsize + len(hosts) * HOST.itemsize
        flows = np.frombuffer(table, FLOW, n_flows, at)
        at += flows.nbytes
        self._fronts = np.frombuffer(table, FRONT, n_fronts, at)
        at += self._fronts.nbytes
        self._graph: dict[str, NDArray[Any]] = {}
        for name in GRAPH.names or ():
            self._graph[name] = np.frombuffer(table, GRAPH[name], n_flows, at)
            at += self._graph[name].nbytes
        return flows

    def _launch(self, options: TrafficOptions) -> None:
        self._process = subprocess.Popen(
            [str(objects.helper("traffic")), str(self._fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=(self._fd,),
            process_group=0,  # Ctrl-C must reach only the process that waits for the run
            bufsize=0,
        )
        self._alive = os.pidfd_open(self._process.pid)
        if options.cores:
            os.sched_setaffinity(self._process.pid, options.cores)
        self._answer("r")

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._running().pid

    def begin(self, start_ns: int) -> None:
        """Start the flows, with time 0 at `start_ns` of CLOCK_MONOTONIC."""
        self._say(start_ns.to_bytes(8, "little"))

    def snapshot(self) -> None:
        """Update TCP_INFO of all live flows in the table; flows that have ended have theirs already."""
        if not self.over:
            self._say(b"s")
            self._answer("s")

    @property
    def started(self) -> IntArray:
        """Rows of flows of requests that have started so far, in order; waits among them are complete."""
        rows: IntArray = self._graph["started"][: int(self.header["n_started"][0])].astype(np.int64)
        return rows

    @property
    def over(self) -> bool:
        """True if the program has ended by itself because every flow is done or failed, or time is up."""
        return int(self.header["over"][0]) != RUNNING

    def check(self) -> None:
        """Raise `DatapathError` with the program's own message if it has ended without `over`."""
        process = self._running()
        # A pidfd works after a fork too: waiting is for the parent process only.
        if select([self._alive], [], [], 0)[0] and not self.over:
            process.wait()
            raise DatapathError(self._end_of(process))

    def close(self) -> None:
        """End the program and free the table; live flows end unfinished. May be called twice."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            if self._alive >= 0:
                os.close(self._alive)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._errors.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise DatapathError("The traffic program has been closed.")
        return self._process

    def _say(self, command: bytes) -> None:
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(command)
        except BrokenPipeError:
            process.wait()
            if not self.over:
                raise DatapathError(self._end_of(process)) from None

    def _answer(self, expected: str) -> None:
        process = self._running()
        assert process.stdout is not None
        ready, _, _ = select([process.stdout], [], [], READY_WITHIN_S)
        if not ready:
            raise DatapathError(f"The traffic program did not answer within {READY_WITHIN_S:g} s.")
        if (answer := process.stdout.read(1)) == expected.encode() or (answer == b"" and self.over):
            return
        process.wait()
        raise DatapathError(self._end_of(process))

    def _end_of(self, process: subprocess.Popen[bytes]) -> str:
        self._errors.seek(0)
        reason = self._errors.read().decode(errors="replace").strip().removeprefix("traffic: ").rstrip(".")
        if process.returncode < 0:
            reason = f"killed by signal {-process.returncode}"
        return f"The traffic program ended before its flows did: {reason or f'exit status {process.returncode}'}."

    def __enter__(self) -> "Traffic":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
