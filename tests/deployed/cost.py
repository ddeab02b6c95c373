# SPDX-License-Identifier: BSD-3-Clause
"""What an agent's messages cost it, per period: ``python -m tests.deployed.cost``, over loopback, some seconds."""

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from ncc.deployed.exchange import UdpExchange
from ncc.deployed.message import Key
from ncc.deployed.state import idle
from tests.deployed.hosts import KEY
from tests.deployed.test_exchange import ON_LO, free_ports, spec

PERIODS = 1000


def cpu_us(call: Callable[[], None]) -> float:
    """CPU time of this process, system calls included."""
    before_ns = time.process_time_ns()
    call()
    return (time.process_time_ns() - before_ns) / 1e3


def cost(peers: int, *, group: bool, forged: bool = False) -> tuple[float, float]:
    """Medians of what sending to, and hearing, so many peers takes in a period, in us of CPU time.

    With `forged` the peers have another key, and send until the agent takes no more.
    """
    *ports, meeting = free_ports(2 + peers)
    by: dict[str, Any] = {**ON_LO, "group": f"{ON_LO['group']}:{meeting}", "loop": True} if group else {}
    own, others = f"127.0.0.1:{ports[0]}", [f"127.0.0.1:{port}" for port in ports[1:]]
    if group:  # one peer speaks for all: to a group that makes no difference
        others = [f"{others[0]}*{peers}"]
    sending, receiving = [], []
    with ExitStack() as stack:
        agent = stack.enter_context(closing(UdpExchange(spec(own, *others, **by), KEY)))
        key = Key(b"another sixteen bytes") if forged else KEY
        near = [stack.enter_context(closing(UdpExchange(spec(other, own, **by), key))) for other in others]
        hosts = idle(peers // len(near))
        for _ in range(PERIODS):
            for peer in near * (1 + forged * (2 + 16 // peers)):
                peer.send(hosts, time.monotonic_ns())
            receiving.append(cpu_us(lambda: agent.receive(time.monotonic_ns())))
            sending.append(cpu_us(lambda: agent.send(idle(1), time.monotonic_ns())))
            for other in (agent, *near) * (1 + forged):
                other.receive(time.monotonic_ns())
        counted = agent.counters["forged" if forged else "received"]
        if counted < PERIODS * peers or agent.counters["late"]:
            raise SystemExit(f"messages went astray, so that this machine tells nothing: {agent.counters}")
    return statistics.median(sending), statistics.median(receiving)


def main() -> None:
    """Print the table, in us."""
    rows = ["| peers | one by one: send | receive | by a group: send | receive | a flood of forged ones |"]
    rows.append("|---:|---:|---:|---:|---:|---:|")
    for peers in (1, 15, 63):
        each, all_at_once = cost(peers, group=False), cost(peers, group=True)
        _, flood = cost(peers, group=False, forged=True)
        cells = (*each, *all_at_once, flood)
        rows.append(f"| {peers} | {' | '.join(f'{cell:.0f}' for cell in cells)} |")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
