# SPDX-License-Identifier: BSD-3-Clause
"""Short tests with real traffic: bulk flows from one host to another over a bottleneck for some seconds."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable
from ncc.core.topologies import Dumbbell
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions

RATE_BPS = 200e6
SECONDS_MAX = 60.0
POLL_S = 0.02


def check_seconds(seconds: float) -> None:
    """Raise `ConfigError` for a length that a trial cannot have."""
    if not 0 < seconds <= SECONDS_MAX:
        raise ConfigError(f"A trial lasts from 0 to {SECONDS_MAX:g} s, got {seconds:g}.")


@contextmanager
def trial(
    congestion: str, seconds: float, *, flows: int = 4, mark_bytes: int = 30_000, ecn: bool = True
) -> Iterator[Callable[[float], None]]:
    """Run flows with TCP_CONGESTION `congestion` for at most `seconds`; yield a function that waits for some seconds.

    The caller must hold the machine (`machine.alone`).

    Raises:
        ConfigError: `seconds` is not above 0, or too long.
        DatapathError: the machine cannot run it (see `ncc host check`).
    """
    check_seconds(seconds)
    dumbbell = Dumbbell(
        pairs=1, host_rate_bps=5 * RATE_BPS, bottleneck_rate_bps=RATE_BPS, delay_s=0, mark_threshold_bytes=mark_bytes
    )
    topology = dumbbell.build()
    ends = [next(h for h in topology.hosts if topology.nodes[h].name == name) for name in ("s0", "r0")]
    table = FlowTable(
        start_s=np.zeros(flows),
        src=np.full(flows, ends[0]),
        dst=np.full(flows, ends[1]),
        size_bytes=np.full(flows, int(RATE_BPS * SECONDS_MAX)),
        traffic=np.zeros(flows, np.int64),
    )
    zeros = np.zeros(flows, np.int64)
    with ExitStack() as stack:
        rack = stack.enter_context(Rack(topology))
        hosts = [Sender(rack.namespace(end), rack.address(end)) for end in ends]
        options = TrafficOptions(congestion=congestion, deadline_s=seconds, ecn=int(ecn))
        traffic = stack.enter_context(Traffic(hosts, table, zeros, zeros + 1, options))

        def wait(for_s: float) -> None:
            until = time.monotonic() + for_s
            while not traffic.over and time.monotonic() < until:
                traffic.check()
                time.sleep(POLL_S)

        traffic.begin(time.monotonic_ns())
        yield wait
