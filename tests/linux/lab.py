# SPDX-License-Identifier: BSD-3-Clause
"""Real flows from one host to another over a bottleneck, steered by a shim, each run bounded in time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncc.core.flows import FlowTable
from ncc.core.topologies import Dumbbell
from ncc.core.topology import Topology
from ncc.envs.linux import layout
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.traffic import DONE, Sender, Traffic, TrafficOptions
from tests.linux.patience import exclusively, patiently
from tests.linux.rates import Count
from tests.support.processes import PATIENCE_S, eventually

MB = 1_000_000
RATE_BPS = 200e6
STEP_S = 0.002
HOST = 0
"""Index of the sender as an agent."""
FOR_EVER_S = 1e6
"""Time without a heartbeat after which a limit ends, in tests that are about something else."""


@dataclass
class Lab:
    """A run: flows are numbered 1 to n (SO_MARK), in the order of their sizes."""

    rack: Rack
    traffic: Traffic
    shim: Shim | None
    sender: int
    """Node of the host that sends."""
    finished: dict[int, NDArray[np.void]] = field(default_factory=dict)
    """Last reports of flows that have ended, by their number."""

    def live(self) -> NDArray[np.void]:
        """Reports of live flows, by their number; those that have ended go to `finished`."""
        assert self.shim is not None
        _, rows = reports(self.shim)
        for row in rows[rows["state"] == layout.FINISHED]:
            self.finished[int(row["flow"])] = row
        live: NDArray[np.void] = rows[rows["state"] == layout.LIVE]
        return np.sort(live, order="flow")

    def count(self) -> Count:
        """IP packets with data that a run's one flow has sent, at the time stamp of its report."""
        (row,) = self.live()
        packet_bytes = int(row["mss_bytes"]) + int(row["header_bytes"])
        return Count(int(row["sent_packets"]) * packet_bytes, int(row["updated_ns"]), int(row["updated_ns"]))

    def beat(self) -> None:
        """Let decisions hold, once all flows are known."""
        assert self.shim is not None
        assert eventually(lambda: len(self.live()) == len(self.traffic.flows))
        self.shim.beat()

    def decide(self, flow: int, earlier: int = 0, **values: float) -> None:
        """Write a decision for a live flow, or with `earlier` for a connection before it in its slot."""
        assert self.shim is not None
        self.beat()
        slots, rows = reports(self.shim)
        slot = slots[rows["flow"] == flow][0]
        for name, value in values.items():
            self.shim.decisions[name][slot] = value
        self.shim.decisions["generation"][slot] = rows["generation"][rows["flow"] == flow][0] - np.uint32(earlier)

    def run(self, for_s: float = PATIENCE_S, *, each: Callable[["Lab"], object] | None = None) -> bool:
        """Wait until all flows have ended, at most `for_s`; True if they have. `each` is called every `STEP_S`."""
        until = time.monotonic() + for_s
        while not self.traffic.over and time.monotonic() < until:
            if each is not None:
                each(self)
            time.sleep(STEP_S)
        self.traffic.check()
        return self.traffic.over

    def gone(self, counted: int) -> None:
        """Wait until the kernel has freed this many connections, a moment after their ends."""
        assert self.shim is not None
        shim = self.shim
        assert eventually(lambda: shim.counters()["finished"] >= counted)
        self.live()

    def done(self) -> NDArray[Any]:
        """Return True for each flow that was delivered to the last byte."""
        return np.asarray(self.traffic.flows["state"] == DONE)


def bottleneck(
    *, mark_bytes: int = 30_000, buffer_bytes: int = 150_000, rate_bps: float = RATE_BPS, delay_s: float = 0.0
) -> Topology:
    """A host, and a bottleneck behind it that is a fifth as fast."""
    return Dumbbell(
        pairs=1,
        host_rate_bps=5 * rate_bps,
        bottleneck_rate_bps=rate_bps,
        delay_s=delay_s,
        buffer_bytes=buffer_bytes,
        mark_threshold_bytes=mark_bytes,
    ).build()


@contextmanager
def lab(
    sizes_bytes: Sequence[int],
    controller: str,
    *,
    rack: Rack | None = None,
    congestion: str | None = None,
    before: Callable[[str, int], object] | None = None,
    ecn: bool = True,
) -> Iterator[Lab]:
    """Flows through a `bottleneck` begin at once; with `rack` through one that is there.

    With `congestion` there is no shim of ours. `before` is called with the sender's address and cookie when all is up.
    """
    n = len(sizes_bytes)
    with ExitStack() as stack:
        stack.enter_context(exclusively())
        rack = stack.enter_context(Rack(bottleneck())) if rack is None else rack
        topology = rack.topology
        ends = [next(h for h in topology.hosts if topology.nodes[h].name == name) for name in ("s0", "r0")]
        zeros = np.zeros(n, np.int64)
        flows = FlowTable(np.zeros(n), np.full(n, ends[0]), np.full(n, ends[1]), np.array(sizes_bytes), zeros)
        shim = None
        if congestion is None:
            shim = stack.enter_context(registered(controller, timeout_s=FOR_EVER_S))
            shim.add_host(HOST, rack.address(ends[0]), rack.cookie(ends[0]))
            congestion = shim.name
        if before is not None:
            before(rack.address(ends[0]), rack.cookie(ends[0]))
        hosts = [Sender(rack.namespace(end), rack.address(end)) for end in ends]
        options = TrafficOptions(congestion=congestion, deadline_s=2 * PATIENCE_S, ecn=int(ecn))
        traffic = stack.enter_context(Traffic(hosts, flows, zeros, zeros + 1, options))
        traffic.begin(time.monotonic_ns())
        yield Lab(rack, traffic, shim, ends[0])


def reports(shim: Shim) -> tuple[NDArray[np.intp], NDArray[np.void]]:
    """Slots in use, and copies of their reports that were not being written; frees those of ended connections."""
    slots = np.flatnonzero(shim.reports["state"] != layout.FREE)
    while True:
        before, rows = shim.reports["seq"][slots], shim.reports[slots]
        if (before % 2 == 0).all() and (before == shim.reports["seq"][slots]).all():
            break
    shim.give_back(slots[rows["state"] == layout.FINISHED])
    return slots, rows


def registered(controller: str, params: Sequence[tuple[str, int]] = (), *, timeout_s: float) -> Shim:
    """A shim, as soon as no other process has one of that name."""
    return patiently(lambda: Shim(controller, params, timeout_s=timeout_s))


def facts(program: int) -> dict[str, int]:
    """The kernel's numbers of a program, such as run_cnt, run_time_ns and verified_insns, by its descriptor."""
    lines = Path(f"/proc/self/fdinfo/{program}").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines)
    return {key: int(value) for key, value in pairs if value.strip().isdecimal()}
