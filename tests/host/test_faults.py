# SPDX-License-Identifier: BSD-3-Clause
"""Agents that stand still, are killed, or only look: what becomes of their hosts' traffic."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ncc.core.topologies import SingleSwitch
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from tests.host.agents import AVAILABLE, NETWORK, ROOT, AgentProcess, arguments, beside_others, sending, sysctl
from tests.host.test_link import say
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

LAB = SingleSwitch(senders=3, receivers=3, rate_bps=5e7, buffer_bytes=150_000, mark_threshold_bytes=30_000)
"""Nobody is in anybody's way, so that what a host sends is its own doing."""
MOST_FRAC = 0.1
LIMIT_BPS = MOST_FRAC * 1e8
HEARTBEAT_S = 0.3
SYSCTLS = ("tcp_congestion_control", "tcp_ecn")
BEFORE = SYSCTLS[0]

pytestmark = needs(*TRAFFIC, "ip")


def rates_bps(received: list[int], for_s: float) -> list[float]:
    first, began = list(received), time.monotonic()
    time.sleep(for_s)
    return [8 * (b - a) / (time.monotonic() - began) for a, b in zip(first, received, strict=True)]


def test_who_stands_still_hands_back_and_who_only_looks_changes_nothing(
    policy_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The first agent has no other try, the second has; the third decides and does not write."""
    with beside_others(), Rack(LAB.build()) as rack:
        by_name = {rack.topology.nodes[host].name: host for host in rack.topology.hosts}
        hosts, receivers = ([by_name[f"{kind}{i}"] for i in range(3)] for kind in ("s", "r"))
        before = [sysctl(rack.namespace(host), BEFORE) for host in hosts]
        more = [["--default", "--tries", "0"], ["--default", "--tries", "3", "--hold-off-s", "0.2"], ["--dry-run"]]
        agents = [
            AgentProcess(
                rack.namespace(host),
                arguments(rack, host, policy_path, *options, "--heartbeat-s", str(HEARTBEAT_S), most_frac=MOST_FRAC),
            )
            for host, options in zip(hosts, more, strict=True)
        ]
        once, again, dry = agents
        try:
            for agent in agents:
                agent.wait_for("started")
            assert sysctl(rack.namespace(hosts[2]), BEFORE) == before[2]
            names = [None, None, f"ncc_test_{hosts[2]}"]
            with sending(rack, list(zip(hosts, receivers, strict=True)), names) as received:
                time.sleep(0.5)
                obeyed = rates_bps(received, 0.8)
                for agent in (once, again):
                    agent.process.send_signal(signal.SIGSTOP)
                time.sleep(HEARTBEAT_S + 0.1)
                alone = rates_bps(received, 0.6)
                for agent in (once, again):
                    agent.process.send_signal(signal.SIGCONT)
                status = once.process.wait(20)
                assert eventually(lambda: any("decides again" in line["said"] for line in again.events("guard")), 20)
                dry.process.kill()
                time.sleep(0.5)
                later = rates_bps(received, 0.8)
            assert again.end() == 0
        finally:
            for agent in agents:
                agent.close()
        assert [sysctl(rack.namespace(host), BEFORE) for host in hosts] == before
    record_property(
        "measured", f"Mbit/s obeying, alone, later: {[[round(x / 1e6) for x in r] for r in (obeyed, alone, later)]}"
    )
    assert status == 1
    assert all(rate < 1.07 * LIMIT_BPS for rate in obeyed[:2])
    assert obeyed[2] > 2 * LIMIT_BPS  # nobody limits it,
    reports = [line for line in dry.events("report") if line["connections"]]
    assert reports
    assert any(
        limit is not None and limit <= LIMIT_BPS for line in reports for limit in line["limits_bps"]
    )  # but would
    assert all(rate > 1.2 * LIMIT_BPS for rate in alone[:2])  # the kernel itself stopped asking
    (given_up,) = once.events("given_up")
    assert "no heartbeat came" in given_up["reason"]
    assert later[1] < 1.07 * LIMIT_BPS  # it obeys again
    assert later[0] > 1.2 * LIMIT_BPS
    assert later[2] > LIMIT_BPS  # its agent was killed, and its connection goes on
    assert not [name for name in AVAILABLE.read_text().split() if name.startswith("ncc_test_")]


def test_settings_that_a_killed_agent_left_are_put_back_by_the_next_or_by_hand(policy_path: Path) -> None:
    name = f"{namespaces.owner()}-killed"
    host = ["--address", "127.0.0.1", *NETWORK]
    asked = [str(policy_path), *host, "--name", "ncc_test_k", "--default", "--heartbeat-s", "0.5"]
    restore = ["ip", "netns", "exec", name, sys.executable, "-m", "ncc.host", "restore"]
    with beside_others():
        namespaces.create(name)
        say("-n", name, "link", "set", "lo", "up")
        try:
            before = [sysctl(name, setting) for setting in SYSCTLS]
            for by_hand in (True, False):
                killed = AgentProcess(name, asked)
                killed.wait_for("started")
                assert sysctl(name, BEFORE) == "ncc_test_k"
                second = subprocess.run(restore, cwd=ROOT, capture_output=True, text=True, check=False)
                assert (second.returncode, "Another agent has changed settings" in second.stderr) == (1, True)
                killed.close()
                assert sysctl(name, BEFORE) == "ncc_test_k"  # nobody is left to put it back
                if by_hand:
                    done = subprocess.run(restore, cwd=ROOT, capture_output=True, text=True, check=True)
                    assert f"{BEFORE} is {before[0]} again" in done.stdout
                    assert [sysctl(name, setting) for setting in SYSCTLS] == before
            next_one = AgentProcess(name, asked)
            next_one.wait_for("started")
            assert next_one.end() == 0
            next_one.close()
            assert [sysctl(name, setting) for setting in SYSCTLS] == before
            done = subprocess.run(restore, cwd=ROOT, capture_output=True, text=True, check=True)
            assert "No agent left anything" in done.stdout
        finally:
            namespaces.remove(name)
