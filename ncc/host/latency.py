# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host latency``: how long the agent takes from measuring to limits in force, on this machine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FlowTable
from ncc.core.topologies import ManyToOne
from ncc.core.units import MBPS
from ncc.deployed.peers import PORT
from ncc.envs.linux import machine, objects
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.traffic import Sender, Traffic, TrafficOptions
from ncc.harness.atomic import write_text
from ncc.harness.manifest import provenance
from ncc.host.page import put
from ncc.host.runs import patiently, watched

DOCS = Path("docs/host")
PAGE, RESULTS = "README.md", "results.json"
PERIOD_S = 1e-3
RATE_BPS = 200 * MBPS
"""Of the port that all share, packet by packet: two cores carry it and leave room for decisions."""
FLOWS = 2
"""Of each host, without end."""
STARTS_IN_S = 60.0
CASES = ((1, 0), (16, 0), (64, 0), (1, 15), (1, 63))
"""(hosts of the agent, hosts of others that tell it of themselves every period)"""
SCHEDULINGS = ("usual", "SCHED_FIFO")


def latency(console: Console, out: Path | None, *, quick: bool) -> int:
    """Measure, and write the page and its figures; 0.

    Raises:
        ConfigError: no page to fill.
        DatapathError: the machine cannot run real traffic, or an agent failed.
    """
    machine.require()
    folder = out or (Path("runs/host/latency_quick") if quick else DOCS)
    page = next((path for path in (folder / PAGE, DOCS / PAGE) if path.is_file()), None)
    if page is None:
        raise ConfigError(f"{DOCS / PAGE} is not here: measure in the root of a checkout")
    seconds, rows = 3.0 if quick else 10.0, []
    with tempfile.TemporaryDirectory() as scratch:
        policy = _exported(Path(scratch) / "ncc.ncc")
        for hosts, peers in CASES:
            with _rack(hosts) as rack:
                for scheduling in SCHEDULINGS:
                    said = f"{hosts} hosts, {peers} peers, {scheduling}"
                    with console.status(said), watched() as load:
                        found = _agent(rack, policy, peers, seconds, realtime=scheduling == SCHEDULINGS[1])
                    rows.append({"hosts": hosts, "peers": peers, "scheduling": scheduling, **found, "load": load})
                    console.print(f"{said}: {_cells(rows[-1])[3:]}", highlight=False)
    results = {"seconds": seconds, "provenance": provenance(), "rows": rows}
    lines = ",\n".join(f"  {json.dumps(row, allow_nan=False)}" for row in rows)
    head = json.dumps({**results, "rows": []}, allow_nan=False).removesuffix("[]}")
    write_text(folder / RESULTS, f"{head}[\n{lines}\n ]}}\n")
    write_text(folder / PAGE, put(page.read_text(), "latency", table(results)))
    console.print(f"Written to {folder}", highlight=False)
    return 0


def _exported(path: Path) -> Path:
    """The policy that comes with the package, as a file."""
    asked = [sys.executable, "-m", "ncc.export", "policy=ncc", f"out={path}", f"period_s={PERIOD_S}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DatapathError(f"The packaged policy cannot be exported: {done.stderr.strip() or done.stdout.strip()}")
    return path


@contextmanager
def _rack(hosts: int) -> Iterator[Rack]:
    """Hosts under a switch, and a receiver."""
    topology = ManyToOne(senders=hosts, rate_bps=RATE_BPS, buffer_bytes=300_000, mark_threshold_bytes=50_000).build()
    with ExitStack() as stack:
        stack.callback(os.close, patiently(lambda: machine.take_machine(shared=True)))
        yield stack.enter_context(Rack(topology))


def _agent(rack: Rack, policy: Path, peers: int, seconds: float, *, realtime: bool) -> dict[str, Any]:
    """What the agent of all hosts of a rack says of itself at its end."""
    topology = rack.topology
    senders, receiver = list(topology.group("senders")), topology.group("receiver")[0]
    own, others = machine.split_cores()
    address = rack.address(senders[0])
    command = [sys.executable, "-m", "ncc.host", "run", str(policy), "--elsewhere"]
    for host in senders:
        command += ["--address", rack.address(host)]
    command += ["--link-rate", f"{RATE_BPS:g}", "--upper-rate", f"{RATE_BPS:g}", "--upper-buffer", "300000"]
    command += ["--outside-training", "--seconds", f"{seconds + 1:g}", "--core", str(own[0]), "--heartbeat-s", "0.5"]
    if realtime:
        command.append("--realtime")
    with ExitStack() as stack:
        if peers:
            key = policy.parent / "key"
            key.touch(mode=0o600)
            key.write_bytes(b"a key for measuring, known to everybody")
            command += ["--peers", f"{address}:{PORT + 1}*{peers}", "--key", str(key)]
            talk = ["-m", "ncc.host.talking", f"{address}:{PORT + 1}*{peers}", address, str(key), f"{PERIOD_S:g}"]
            talking = subprocess.Popen(_inside(rack, senders[0], [sys.executable, *talk]), stdin=subprocess.PIPE)
            stack.callback(_ended, talking)
            os.sched_setaffinity(talking.pid, others)
        with tempfile.TemporaryFile("w+") as said:
            agent = subprocess.Popen(_inside(rack, senders[0], command) if peers else command, stderr=said)
            stack.callback(_ended, agent)
            _until_registered(agent, said)
            with _sending(rack, senders, receiver, others, seconds + STARTS_IN_S):
                status = agent.wait(seconds + STARTS_IN_S)
            said.seek(0)
            text = said.read()
    if status != 0:
        raise DatapathError(f"The agent ended with status {status}: {text.splitlines()[-1]}")
    ended = json.loads(text.splitlines()[-1])
    return {
        "periods": ended["periods"],
        "missed_frac": ended["missed_periods"] / ended["periods"],
        **{f"{what}_us": ended["duration_us"][what] for what in ("took", "late")},
        "cpu_frac": ended["cpu_frac"],
        "rss_mb": round(ended["peak_rss_bytes"] / 1e6, 1),
        "connections": ended["connections"],
        "stale_peers": ended["stale_peers"],
        "hand_backs": ended["guard"]["hand_backs"],
    }


def _inside(rack: Rack, host: int, command: list[str]) -> list[str]:
    return ["ip", "netns", "exec", rack.namespace(host), *command]


def _until_registered(agent: "subprocess.Popen[bytes]", said: Any) -> None:
    until, name = time.monotonic() + STARTS_IN_S, objects.congestion_name("dctcp")
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
    while name not in available.read_text().split():
        if agent.poll() is not None or time.monotonic() > until:
            said.seek(0)
            raise DatapathError(f"The agent does not begin: {said.read().strip()}")
        time.sleep(0.01)


@contextmanager
def _sending(rack: Rack, senders: list[int], receiver: int, cores: tuple[int, ...], for_s: float) -> Iterator[None]:
    n = FLOWS * len(senders)
    flows = FlowTable(
        start_s=np.zeros(n),
        src=np.repeat(senders, FLOWS),
        dst=np.full(n, receiver),
        size_bytes=np.full(n, 2**40),
        traffic=np.zeros(n, np.int64),
    )
    hosts = [Sender(rack.namespace(host), rack.address(host)) for host in (*senders, receiver)]
    options = TrafficOptions(congestion=objects.congestion_name("dctcp"), deadline_s=for_s, cores=cores)
    rows = np.repeat(np.arange(len(senders)), FLOWS)
    with Traffic(hosts, flows, rows, np.full(n, len(senders)), options) as traffic:
        traffic.begin(time.monotonic_ns())
        yield


def _ended(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


HEADINGS = (
    "hosts", "peers", "scheduling", "p50 (us)", "p99", "p99.9", "max", "late p50 (us)", "late p99.9", "missed (%)",
    "CPU (%)", "RSS (MB)",
)  # fmt: skip


def table(results: dict[str, Any]) -> str:
    """For the page."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|---:|---:|---" + "|---:" * (len(HEADINGS) - 3) + "|"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in results["rows"]]
    made, loads = results["provenance"], [row["load"]["busy_frac_before"] for row in results["rows"]]
    changed = " with changes" if made["git"]["dirty"] else ""
    lines += [
        "",
        f"<sub>`ncc host latency`, {results['seconds']:g} s each, {made['written_at'][:16]} UTC, commit "
        f"{str(made['git']['commit'])[:9]}{changed}; before each others used {100 * min(loads):.0f} to "
        f"{100 * max(loads):.0f} % of the cores. Rows of the usual scheduling depend strongly on what "
        "else runs; compare none of them with those of another time.</sub>",
    ]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> list[str]:
    took, late = row["took_us"], row["late_us"]
    return [
        str(row["hosts"]),
        str(row["peers"]),
        row["scheduling"],
        *(f"{took[name]:.0f}" for name in ("p50", "p99", "p99.9", "max")),
        *(f"{late[name]:.0f}" for name in ("p50", "p99.9")),
        f"{100 * row['missed_frac']:.2f}",
        f"{100 * row['cpu_frac']:.1f}",
        f"{row['rss_mb']:.0f}",
    ]
