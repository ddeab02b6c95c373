# SPDX-License-Identifier: BSD-3-Clause
"""What controllers in the kernel survive: senseless values, killed agents, more connections than slots."""

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import layout
from ncc.envs.linux.shim import Shim
from tests.linux.lab import ENDLESS, HOST, MB, lab, limit, near, registered, sent_bps
from tests.support.linux import TRAFFIC, needs

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

AGENT = """
import sys, time
import numpy as np
from ncc.envs.linux.shim import Shim
shim = Shim("dctcp", timeout_s=0.1)
shim.add_host(0, sys.argv[1])
shim.limit(np.array([float(sys.argv[2])]))
print(shim.name, flush=True)
while True:
    shim.beat()
    time.sleep(0.002)
"""


@needs(*TRAFFIC)
@pytest.mark.parametrize("rate", [1, 2**63, 2**64 - 1], ids=["a byte a second", "2^63", "2^64 - 1"])
def test_values_that_nobody_means_are_survived(rate: int, record_property: Callable[[str, object], None]) -> None:
    """The limit of a byte a second leaves each flow a packet every 100 ms; once it is gone all go on."""
    with lab([4 * MB] * 3, "dctcp") as run:
        run.run(0.1)
        assert run.shim is not None
        shim = run.shim
        shim.flows()
        shim.hosts["rate_bytes_per_s"][HOST] = rate
        shim.decisions["generation"][shim.slots] = shim.reports["generation"][shim.slots]
        shim.decisions["weight"][shim.slots] = [0, 2**32 - 1, 1][: len(shim.slots)]
        shim.decisions["cwnd_bytes"][shim.slots] = [1, 2**32 - 1, 2**64 - 1][: len(shim.slots)]
        shim.decisions["pacing_bytes_per_s"][shim.slots] = [1, 2**64 - 1, 2**63][: len(shim.slots)]
        shim.hosts["weight_sum"][HOST] = -(2**62)
        run.run(0.5)
        if rate == 1:  # else windows without bounds drown the bottleneck
            assert (run.live()["updated_ns"] > time.monotonic_ns() - 400_000_000).all(), "a flow got nothing out"
        clamped = shim.counters()["clamped"]
        assert clamped > 0
        shim.hosts["rate_bytes_per_s"][HOST] = 0
        shim.decisions["generation"] = 0
        began = time.monotonic()
        assert run.run(15.0)
        assert run.done().all()
        took_s = time.monotonic() - began
        record_property(
            "measured", f"{clamped} ACKs asked for too much or too little; all 3 flows ended {took_s:.2f} s later"
        )


@pytest.fixture
def agent() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts an agent in a process of its own, which limits the host of an address to 8 Mbit/s."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", AGENT, source, "8e6"], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ncc_dctcp"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@needs(*TRAFFIC)
def test_a_killed_agent_leaves_no_limit(
    agent: Callable[[str], subprocess.Popen[str]], record_property: Callable[[str, object], None]
) -> None:
    agents: list[subprocess.Popen[str]] = []
    with lab([6 * MB] * 3, "dctcp", congestion="ncc_dctcp", before=lambda at: agents.append(agent(at))) as run:
        assert "ncc_dctcp" in AVAILABLE.read_text().split()
        assert not run.run(1.0), "no limit was in force"
        agents[0].send_signal(signal.SIGKILL)
        agents[0].wait(10)
        killed = time.monotonic()
        assert "ncc_dctcp" not in AVAILABLE.read_text().split()
        with Shim("dctcp", timeout_s=0.1) as another:  # for connections from now on
            assert another.name in AVAILABLE.read_text().split()
        assert run.run(15.0)
        assert run.done().all()
        took_s = time.monotonic() - killed
        assert took_s < 6.0  # at 8 Mbit/s it would take 17 s
        record_property(
            "measured", f"all 3 flows ended {took_s:.2f} s after the kill; under its limit it would take 17 s"
        )


@needs(*TRAFFIC)
def test_another_agent_takes_over_what_a_killed_one_left(
    agent: Callable[[str], subprocess.Popen[str]], record_property: Callable[[str, object], None]
) -> None:
    agents: list[subprocess.Popen[str]] = []
    with lab([ENDLESS] * 3, "dctcp", congestion="ncc_dctcp", before=lambda at: agents.append(agent(at))) as run:
        run.run(0.5)
        with pytest.raises(DatapathError, match="the agent of those that are there is alive"):
            Shim.adopt("dctcp", timeout_s=0.1)
        agents[0].send_signal(signal.SIGKILL)
        agents[0].wait(10)
        run.run(0.3)
        with Shim.adopt("dctcp", timeout_s=0.1) as adopted:
            run.shim = adopted
            assert adopted.name == "ncc_dctcp"
            assert adopted.counters()["fallbacks"] == 3
            alone_bps = sent_bps(run, 0.5, beat=False)
            assert alone_bps > 120e6
            limit(run, 30e6)
            run.run(0.2)
            sent = near(run, 30e6)
            assert sent == pytest.approx(30e6, rel=0.05)
            record_property(
                "measured",
                f"3 fallbacks of 3 connections; {alone_bps / 1e6:.0f} Mbit/s alone, {sent / 1e6:.2f} under the limit "
                "of 30 of the agent that adopted them",
            )
            with pytest.raises(DatapathError, match="was adopted: its programs are another process's"):
                adopted.programs()
        with pytest.raises(DatapathError, match="is closed"):
            adopted.flows()
    with pytest.raises(DatapathError, match="No connections are left to adopt that vegas runs: there are none"):
        Shim.adopt("vegas", timeout_s=0.1)


@contextmanager
def few_slots(*slots: int) -> Iterator[tuple[list[Shim], Callable[[str], None]]]:
    """What a `lab` may be given as `before`: it registers a shim that has only these slots, and limits its host."""
    shims: list[Shim] = []

    def start(source: str) -> None:
        if not shims:
            shims.append(registered("dctcp", timeout_s=0.1))
            while shims[0].free_slots.pop() is not None:
                pass
            for slot in slots:
                shims[0].free_slots.update(None, struct.pack("=I", slot))
        shims[0].add_host(HOST, source)
        shims[0].limit(np.array([30e6]))
        shims[0].beat()

    try:
        yield shims, start
    finally:
        for shim in shims:
            shim.close()


@needs(*TRAFFIC)
def test_without_a_free_slot_a_flow_runs_unreported_and_is_counted(
    record_property: Callable[[str, object], None],
) -> None:
    with few_slots() as (shims, start), lab([MB, MB], "dctcp", congestion="ncc_dctcp", before=start) as run:
        began = time.monotonic()
        assert run.run(each=lambda _: shims[0].beat())
        assert run.done().all()
        assert time.monotonic() - began > 0.4  # the limit holds for them too: 16 Mbit at 30 Mbit/s
        assert len(shims[0].flows()) == 0
        assert shims[0].counters()["unreported"] == shims[0].counters()["started"] == 2
        record_property(
            "measured", "2 of 2 flows without a slot ended within the limit, and were counted as unreported"
        )


@needs(*TRAFFIC)
def test_a_last_report_is_read_once_and_then_its_slot_is_used_again() -> None:
    with few_slots(7) as (shims, start):
        for generation in (1, 2):
            with lab([MB // 4], "dctcp", congestion="ncc_dctcp", before=start) as run:
                assert run.run(each=lambda _: shims[0].beat())
                until = time.monotonic() + 5
                while shims[0].counters()["finished"] < generation and time.monotonic() < until:
                    time.sleep(0.01)
            (row,) = shims[0].flows()
            assert shims[0].slots.tolist() == [7]
            assert (row["state"], row["generation"], row["flow"]) == (layout.FINISHED, generation, 1)
            assert row["delivered_bytes"] == MB // 4
            assert len(shims[0].flows()) == 0
        assert shims[0].counters()["unreported"] == 0
