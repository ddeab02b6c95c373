# SPDX-License-Identifier: BSD-3-Clause
"""Controllers in the kernel survive senseless values, killed agents, and more connections than slots."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.linux import layout
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from tests.linux.lab import FOR_EVER_S, HOST, MB, lab, registered, reports
from tests.linux.sockets import paced_bps
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

AGENT = """
import sys, time
import numpy as np
from ncc.envs.linux.shim import Shim
shim = Shim("dctcp", timeout_s=1.0)
shim.add_host(0, sys.argv[1], int(sys.argv[2]))
shim.limit(np.array([2e5]))
print(shim.name, flush=True)
while True:
    shim.beat()
    time.sleep(0.002)
"""


@needs(*TRAFFIC)
@pytest.mark.parametrize("rate", [1, 2**64 - 1], ids=["a byte a second", "2^64 - 1"])
def test_values_that_nobody_means_are_survived(rate: int, rack: Rack) -> None:
    """The limit of a byte a second leaves each flow a packet every 100 ms; once it is gone all go on."""
    with lab([4 * MB] * 3, "dctcp", rack=rack) as run:
        assert run.shim is not None
        shim = run.shim
        run.limit(20e6)
        shim.hosts["rate_bytes_per_s"][HOST] = rate
        run.decide(1, weight=0, cwnd_bytes=1, pacing_bytes_per_s=1)
        run.decide(2, weight=2**32 - 1, cwnd_bytes=2**32 - 1, pacing_bytes_per_s=2**64 - 1)
        run.decide(3, weight=1, cwnd_bytes=2**64 - 1, pacing_bytes_per_s=2**63)
        shim.hosts["weight_sum"][HOST] = -(2**62)
        assert eventually(lambda: shim.counters()["clamped"] > 0)
        if rate == 1:  # else windows without bounds drown the bottleneck
            acks = run.live()["acks"]
            assert eventually(lambda: (run.live()["acks"] - acks).min() >= 3), "a flow gets nothing out"
        shim.hosts["rate_bytes_per_s"][HOST] = 0
        shim.decisions["generation"] = 0
        assert run.run()
        assert run.done().all()


@needs(*TRAFFIC)
def test_a_killed_agent_leaves_no_limit(rack: Rack) -> None:
    """With its limit the flows would take six minutes."""
    agents: list[subprocess.Popen[str]] = []

    def started(address: str, cookie: int) -> None:
        """Start an agent in a process of its own, which limits the host of an address to 0.2 Mbit/s."""
        command = [sys.executable, "-c", AGENT, address, str(cookie)]
        agents.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert agents[0].stdout is not None
        assert agents[0].stdout.readline().strip() == "ncc_dctcp"

    try:
        with lab([3 * MB] * 3, "dctcp", rack=rack, congestion="ncc_dctcp", before=started) as run:
            assert "ncc_dctcp" in AVAILABLE.read_text().split()

            def limited() -> bool:
                paced = paced_bps(rack.namespace(run.sender)).values()
                return len(paced) == 3 and max(paced) <= 2e5

            assert eventually(limited), "no limit is in force"
            agents[0].kill()
            agents[0].wait()
            assert "ncc_dctcp" not in AVAILABLE.read_text().split()
            with Shim("dctcp", timeout_s=0.1) as another:  # for connections from now on
                assert another.name in AVAILABLE.read_text().split()
                assert another.agent["timeout_ns"] == 100_000_000
            assert run.run()
            assert run.done().all()
    finally:
        for agent in agents:
            agent.kill()
            agent.communicate()  # closes the pipe


@contextmanager
def few_slots(*slots: int) -> Iterator[tuple[Shim, Callable[[str, int], None]]]:
    """A shim that has only these slots, and what a `lab` is given as `before`, which limits its host by that shim."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shim, "_free", lambda *_: None)
        shim = registered("dctcp", timeout_s=FOR_EVER_S)
    shim._free(slots)

    def start(address: str, cookie: int) -> None:
        shim.add_host(HOST, address, cookie)
        shim.limit(np.array([30e6]))
        shim.beat()

    with shim:
        yield shim, start


@needs(*TRAFFIC)
def test_without_a_free_slot_a_flow_runs_unreported_and_is_counted(rack: Rack) -> None:
    with few_slots() as (shim, start), lab([MB], "dctcp", rack=rack, congestion="ncc_dctcp", before=start) as run:
        began = time.monotonic()
        assert run.run()
        assert run.done().all()
        assert time.monotonic() - began > 0.9 * 8 * MB / 30e6  # the limit holds for it too
        assert len(reports(shim)[0]) == 0
        assert shim.counters()["unreported"] == shim.counters()["started"] == 1


@needs(*TRAFFIC)
def test_a_last_report_is_read_once_and_then_its_slot_is_used_again(rack: Rack) -> None:
    with few_slots(7) as (shim, start):
        for generation in (1, 2):
            with lab([MB // 4], "dctcp", rack=rack, congestion="ncc_dctcp", before=start) as run:
                assert run.run()
                assert eventually(lambda n=generation: shim.counters()["finished"] >= n)  # type: ignore[misc]
            slots, (row,) = reports(shim)
            assert slots.tolist() == [7]
            assert (row["state"], row["generation"], row["flow"]) == (layout.FINISHED, generation, 1)
            assert row["delivered_bytes"] == MB // 4
            assert len(reports(shim)[0]) == 0
        assert shim.counters()["unreported"] == 0
