# SPDX-License-Identifier: BSD-3-Clause
"""Costs of a host's packets and of its agent, measured on this machine: ``python -m tests.linux.report [--quick]``.

It takes root, a quiet machine and three minutes, and prints tables of docs/linux; names of parts choose some.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ncc.baselines.registry import Ecn, controller
from ncc.envs.linux import machine, namespaces, objects
from ncc.envs.linux.order_program import OrderProgram
from ncc.envs.linux.queue import HostQueue
from ncc.policies.export import ExportSpec, export
from tests.host.agents import AgentProcess
from tests.host.lines import line
from tests.linux.lab import facts
from tests.linux.lab import lab as flows_of
from tests.linux.lines import Line, sending
from tests.linux.sockets import ENDLESS

WARM_S = 0.5

Row = dict[str, Any]


def cost(*, quick: bool) -> Iterator[Row]:
    """Time of the program that handles an ACK, by the kernel's clock for BPF programs, of each controller."""
    for name in objects.controllers():
        with flows_of([ENDLESS] * 4, name, ecn=controller(name).ecn != Ecn.NONE) as run:
            assert run.shim is not None
            program = run.shim.programs()["shim_cong_control"]
            run.run(WARM_S)
            took_ns = per_run_ns(program, 0.5 if quick else 3.0, run.run)
        yield {"controller": name, "ns per ACK": f"{took_ns:.0f}"}


def packets(*, quick: bool) -> Iterator[Row]:
    """CPU of a host's packets by the queue that they leave through, at the highest rate of this machine.

    The sender, both ends of the line and the receiver are in it. Packets have 1500 bytes each, as on a wire.
    """
    found: dict[str, list[tuple[float, float, float]]] = {}
    program_ns = 0.0
    with line() as on, on.flowing("cubic") as sender:
        for _ in range(1 if quick else 5):
            for kind in ("noqueue", "pfifo_fast", "fq_codel", "fq", "limit alone", "order"):
                with through(on, kind) as program, sending(sender, pause_s=0.0):
                    if program == -1:
                        continue
                    time.sleep(0.3)
                    found.setdefault(kind, []).append(flood_of(on, 0.5 if quick else 2.0))
                    if kind == "order":
                        program_ns = per_run_ns(program, 0.5)
    for kind, rounds in found.items():
        rate, per_packet, per_bit = np.median(np.array(rounds), axis=0)
        yield {
            "queue": kind,
            "Gbit/s": f"{rate / 1e9:.2f}",
            "CPU per packet (ns)": f"{per_packet:.0f}",
            "cores per Gbit/s": f"{per_bit * 1e9:.2f}",
            "of a packet in the program (ns)": f"{program_ns:.0f}" if kind == "order" else "",
        }


def agent(*, quick: bool) -> Iterator[Row]:
    """CPU of a host's agent, a process of its own, by its connections, all of which have something to send."""
    words = [*("--interface", "line0", "--link-rate", "1e8", "--uplink-rate", "1e8", "--outside-training")]
    words += ["--max-rate-frac", "0.5", "--default", "--realtime", "--name", "ncc_report", "--log-s", "0.2"]
    with tempfile.TemporaryDirectory() as folder:
        policy = export(ExportSpec(policy="ncc", out=f"{folder}/policy.ncc", period_s=0.001))
        for connections in (16, 256):
            with line() as on, ExitStack() as opened:
                started = opened.enter_context(AgentProcess(on.host, [str(policy), *words]))
                started.wait_for("started")
                senders = [opened.enter_context(on.flowing()) for _ in range(connections)]
                with sending(*senders):
                    time.sleep(3 if quick else 15)
                    seen = started.events("report")[-1]["connections"]
                started.end()
            ended = started.wait_for("ended")
            took = {f"took {name} (us)": us for name, us in ended["duration_us"]["took"].items()}
            missed = f"{100 * ended['missed_periods'] / ended['periods']:.2f}"
            row: Row = {"connections": seen, "periods": ended["periods"], "missed (%)": missed}
            yield row | {"CPU (%)": f"{100 * ended['cpu_frac']:.1f}"} | took


@contextmanager
def through(on: Line, kind: str) -> Iterator[int]:
    """A queue at the host's end of the line: its program's descriptor, 0 if it has none, -1 if the kernel lacks it."""
    if kind in ("limit alone", "order"):
        with ExitStack() as undo, namespaces.inside(on.host):
            program = undo.enter_context(closing(OrderProgram(1e6, "known" if kind == "order" else "fifo")))
            undo.enter_context(HostQueue("line0", 1e12, program=program))
            program.beat()
            yield program.fd
        return
    if kind == "noqueue":
        yield 0
        return
    tc = ["tc", "-n", on.host, "qdisc"]
    made = subprocess.run([*tc, "replace", "dev", "line0", "root", kind], capture_output=True, check=False)
    if made.returncode:
        yield -1
        return
    yield 0
    subprocess.run([*tc, "del", "dev", "line0", "root"], check=True)


def flood_of(on: Line, for_s: float) -> tuple[float, float, float]:
    """Rate in bits/s of what leaves the host, and CPU in ns per packet and in core-seconds per bit."""

    def now() -> tuple[float, int, int, float]:
        busy = psutil.cpu_times()
        sent, pkts = on.sent()
        return time.monotonic(), sent, pkts, sum(busy) - busy.idle - busy.iowait

    before = now()
    time.sleep(for_s)
    took_s, sent_bytes, pkts, cpu_s = (after - then for after, then in zip(now(), before, strict=True))
    return 8 * sent_bytes / took_s, 1e9 * cpu_s / pkts, cpu_s / (8 * sent_bytes)


def per_run_ns(program: int, for_s: float, passes: Callable[[float], object] = time.sleep) -> float:
    """Time that a run of a BPF program takes, by the kernel's clock for them, while `for_s` passes."""
    clock = Path("/proc/sys/kernel/bpf_stats_enabled")
    off, before = clock.read_text(), facts(program)
    try:
        clock.write_text("1\n")
        passes(for_s)
    finally:
        clock.write_text(off)
    after = facts(program)
    return (after["run_time_ns"] - before["run_time_ns"]) / max(1, after["run_cnt"] - before["run_cnt"])


PARTS = {part.__name__: part for part in (cost, packets, agent)}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.linux.report", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="less of everything, for a look")
    options = parser.parse_args()
    machine.require()
    for name in options.parts or PARTS:
        busy = f"{100 * machine.busy_frac(1.0):.0f} % of the cores busy before, load average {os.getloadavg()[0]:.1f}"
        rows = list(PARTS[name](quick=options.quick))
        lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
        sys.stdout.write(f"{name}: {busy}\n\n")
        sys.stdout.write("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n")


if __name__ == "__main__":
    main()
