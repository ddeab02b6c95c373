# SPDX-License-Identifier: BSD-3-Clause
"""The agent's time per period: ``python -m tests.host.latency [seconds]``, as in docs/host; it takes root.

Hosts with two connections each send without end through one port of 200 Mbit/s. Where there are peers, another process
sends a signed message for each of them every period.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing import Event, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ncc.core.flows import FlowTable
from ncc.core.topologies import ManyToOne
from ncc.core.units import to_ns
from ncc.envs.linux import machine, namespaces
from ncc.envs.linux.periods import Periods, sleep_until
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from ncc.host.exchange import ExchangeSpec, UdpExchange
from ncc.host.keys import FIRST_LINE, Key, Keys
from ncc.host.message import idle
from ncc.host.peers import PORT
from ncc.policies.export import ExportSpec, export
from tests.host.agents import AgentProcess, beside_others

PERIOD_S = 1e-3
RATE_BPS = 200e6
NAME = "ncc_test_l"
SECRET = b"a key for measuring, known to everybody"
CASES = ((1, 0), (16, 0), (64, 0), (1, 15), (1, 63))
"""(hosts of the agent, peers that send it their state every period)"""
HEAD = (
    "hosts", "peers", "scheduling", "p50 (us)", "p99", "p99.9", "max", "late p50 (us)", "late p99.9", "missed (%)",
    "CPU (%)", "RSS (MB)",
)  # fmt: skip


def main(seconds: float) -> None:
    """Print the table."""
    sys.stdout.write(f"| {' | '.join(HEAD)} |\n|---:|---:|---{'|---:' * (len(HEAD) - 3)}|\n")
    with TemporaryDirectory() as folder, beside_others():
        policy, key = Path(folder) / "ncc.ncc", Path(folder) / "key"
        export(ExportSpec(policy="ncc", out=str(policy), period_s=PERIOD_S))
        key.touch(mode=0o600)
        key.write_text(f"{FIRST_LINE}\n1 * * {SECRET.hex()}\n")
        for hosts, peers in CASES:
            for scheduling in ("usual", "SCHED_FIFO"):
                more = ["--realtime"] if scheduling == "SCHED_FIFO" else []
                ended = measured(hosts, peers, [str(policy), "--seconds", f"{seconds:g}", *more], key)
                cells = (str(hosts), str(peers), scheduling, *cells_of(ended))
                sys.stdout.write(f"| {' | '.join(cells)} |\n")
                sys.stdout.flush()


def cells_of(ended: dict[str, Any]) -> Iterator[str]:
    """Figures of the agent's last line of log."""
    took, late = ended["duration_us"]["took"], ended["duration_us"]["late"]
    yield from (f"{took[name]:.0f}" for name in ("p50", "p99", "p99.9", "max"))
    yield from (f"{late[name]:.0f}" for name in ("p50", "p99.9"))
    yield f"{100 * ended['missed_periods'] / ended['periods']:.2f}"
    yield f"{100 * ended['cpu_frac']:.1f}"
    yield f"{ended['peak_rss_bytes'] / 1e6:.0f}"


def measured(hosts: int, peers: int, asked: list[str], key: Path) -> dict[str, Any]:
    """The last log line of an agent with some hosts and peers."""
    topology = ManyToOne(senders=hosts, rate_bps=RATE_BPS, buffer_bytes=300_000, mark_threshold_bytes=50_000)
    (core, *_), others = machine.split_cores()
    with Rack(topology.build()) as rack:
        senders, receiver = list(rack.topology.group("senders")), rack.topology.group("receiver")[0]
        address, inside = rack.address(senders[0]), rack.namespace(senders[0])
        asked += ["--outside-training", "--heartbeat-s", "0.5", "--core", str(core)]
        for host in senders:
            name = f"limited{host}"  # its queue, on which nothing waits, takes the limit
            subprocess.run(["ip", "-n", inside, "link", "add", name, "type", "ifb"], check=True)
            asked += ["--interface", name, "--address", rack.address(host), "--netns", rack.namespace(host)]
        asked += ["--link-rate", f"{RATE_BPS:g}", "--uplink-rate", f"{RATE_BPS:g}", "--uplink-buffer", "300000"]
        asked += ["--name", NAME]
        if peers:
            asked += ["--peers", f"{address}:{PORT + 1}*{peers}", "--key", str(key)]
        with AgentProcess(inside, asked) as agent, neighbours(inside, address, peers, others):
            agent.wait_for("started")
            with sending_on(others, rack, senders, receiver):
                agent.process.wait(120)
        return agent.wait_for("ended")


@contextmanager
def sending_on(cores: tuple[int, ...], rack: Rack, senders: list[int], receiver: int) -> Iterator[None]:
    """Two endless flows of each sender, by a process on these cores."""
    rows = np.repeat(np.arange(len(senders)), 2)
    n = len(rows)
    flows = FlowTable(
        np.zeros(n), np.array(senders)[rows], np.full(n, receiver), np.full(n, 2**40), np.zeros(n, np.int64)
    )
    hosts = [Sender(rack.namespace(host), rack.address(host)) for host in (*senders, receiver)]
    options = TrafficOptions(congestion=NAME, deadline_s=120.0, cores=cores)
    with Traffic(hosts, flows, rows, np.full(n, len(senders)), options) as traffic:
        traffic.begin(time.monotonic_ns())
        yield


@contextmanager
def neighbours(namespace: str, to: str, peers: int, cores: tuple[int, ...]) -> Iterator[None]:
    """A process that sends the states of so many peers every period, until the block ends."""
    over = Event()
    process = get_context("fork").Process(target=_send_states, args=(namespace, to, peers, cores, over))
    if peers:
        process.start()
    try:
        yield
    finally:
        over.set()
        if peers:
            process.join()


def _send_states(namespace: str, to: str, peers: int, cores: tuple[int, ...], over: Any) -> None:
    os.sched_setaffinity(0, cores)
    spec = ExchangeSpec(listen=f"{to}:{PORT + 1}*{peers}", late_s=1.0, peers=(to,))
    with namespaces.inside(namespace):
        exchange = UdpExchange(spec, Keys.shared(Key(SECRET)))
    rng, state, periods = np.random.default_rng(1), idle(peers), Periods(to_ns(PERIOD_S))
    periods.start_ns = time.monotonic_ns()
    with closing(exchange):
        while not over.is_set():
            sleep_until(periods.next_end_ns())
            busy = rng.random(peers) < 0.5
            state["queued_flows"], state["queued_bytes"] = busy, np.where(busy, 1e5, 0.0)
            exchange.send(state, time.monotonic_ns())


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
