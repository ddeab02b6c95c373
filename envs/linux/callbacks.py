# SPDX-License-Identifier: BSD-3-Clause
"""A test of the machine: how often the kernel takes something else for what a BPF callback returns.

Some kernels do now and then (a few times in ten thousand calls on Linux 6.18 in a virtual machine), and a window taken
from there may be anything. The shim depends on no such value; this says how often others would be hit.
"""

import time
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FlowTable
from ncc.core.topologies import Dumbbell
from ncc.envs.linux import layout, objects
from ncc.envs.linux.libbpf import BPF_F_LINK, Object

FLOWS = 4
RATE_BPS = 200e6
MARK_BYTES = 15_000
"""Of the bottleneck's queue: little, so that congestion is met in every round trip."""
SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Callbacks:
    """What was counted."""

    acks: int
    run: int
    """Times the callback ran."""
    right: int
    """Answers that arrived."""
    skipped: int
    """Answers that were something else, though the callback had not run."""
    garbled: int
    """Answers that were something else, though it had."""
    last_wrong: int
    """The last of them."""
    recursion_misses: int
    """Runs that the kernel left out because the program was running on that processor already."""

    @property
    def wrong(self) -> int:
        """Answers that were something else."""
        return self.skipped + self.garbled

    def sentence(self) -> str:
        """For the terminal."""
        asked = self.right + self.wrong
        return (
            f"Of {asked} answers of a callback {self.wrong} arrived as something else ({self.skipped} times it had not "
            f"run, {self.garbled} times it had; the last was {self.last_wrong}), in {self.acks} ACKs."
        )


def count_callbacks(seconds: float) -> Callbacks:
    """Send real traffic through network namespaces for `seconds` and count.

    Raises:
        DatapathError: the machine cannot (`python -m ncc.host check`), or nothing was asked of the callback.
    """
    from ncc.envs.linux.rack import Rack
    from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions

    if not 0 < seconds <= SECONDS_MAX:
        raise DatapathError(f"The test of callbacks lasts from 0 to {SECONDS_MAX:g} s, got {seconds:g}.")
    dumbbell = Dumbbell(
        pairs=1, host_rate_bps=5 * RATE_BPS, bottleneck_rate_bps=RATE_BPS, delay_s=0, mark_threshold_bytes=MARK_BYTES
    )
    topology = dumbbell.build()
    ends = [next(h for h in topology.hosts if topology.nodes[h].name == name) for name in ("s0", "r0")]
    flows = FlowTable(
        start_s=np.zeros(FLOWS),
        src=np.full(FLOWS, ends[0]),
        dst=np.full(FLOWS, ends[1]),
        size_bytes=np.full(FLOWS, int(RATE_BPS * SECONDS_MAX)),
        traffic=np.zeros(FLOWS, np.int64),
    )
    zeros = np.zeros(FLOWS, np.int64)
    with Object(objects.bpf_object("callbacks")) as loaded:
        loaded.map("callbacks").add_flags(BPF_F_LINK)
        loaded.load()
        loaded.register("callbacks")
        counts = loaded.map("counts").view(layout.CALLBACKS)
        with Rack(topology) as rack:
            hosts = [Sender(rack.namespace(end), rack.address(end)) for end in ends]
            options = TrafficOptions(congestion="ncc_callbacks", deadline_s=seconds, ecn=1)
            with Traffic(hosts, flows, zeros, zeros + 1, options) as traffic:
                traffic.begin(time.monotonic_ns())
                while not traffic.over:
                    traffic.check()
                    time.sleep(0.05)
        misses = sum(program.facts().get("recursion_misses", 0) for program in loaded.programs())
        names = ("acks", "run", "right", "skipped", "garbled", "last_wrong")
        result = Callbacks(**{name: int(counts[name][0]) for name in names}, recursion_misses=misses)
    if not result.run:
        raise DatapathError("The test of callbacks met no congestion, so that nothing was asked: run it for longer.")
    return result
