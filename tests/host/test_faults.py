# SPDX-License-Identifier: BSD-3-Clause
"""Traffic of hosts whose agents stand still, are killed, or only observe."""

import signal
from pathlib import Path

from ncc.core.topologies import SingleSwitch
from ncc.envs.linux.rack import Rack
from tests.host.agents import (
    AVAILABLE,
    AgentProcess,
    arguments,
    beside_others,
    leaving,
    limited_to,
    sending,
    sysctl,
)
from tests.linux.rates import check_limit, exceeds
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

LAB = SingleSwitch(senders=3, receivers=3, rate_bps=5e7, buffer_bytes=150_000, mark_threshold_bytes=30_000)
"""Pairs without common ports, so that each host's rate depends on its own agent only."""
MOST_FRAC = 0.1
LIMIT_BPS = MOST_FRAC * 1e8
HEARTBEAT_S = 1.0
SYSCTLS = ("tcp_congestion_control", "tcp_ecn")
BEFORE = SYSCTLS[0]

pytestmark = needs(*TRAFFIC)


def test_who_stands_still_hands_back_and_who_only_looks_changes_nothing(policy_path: Path) -> None:
    """The first agent has no other try, the second has; the third decides and does not write."""
    with beside_others(), Rack(LAB.build()) as rack:
        by_name = {rack.topology.nodes[host].name: host for host in rack.topology.hosts}
        hosts, receivers = ([by_name[f"{kind}{i}"] for i in range(3)] for kind in ("s", "r"))
        before = [sysctl(rack.namespace(host), BEFORE) for host in hosts]
        more = [["--default", "--tries", "0"], ["--default", "--tries", "3", "--hold-off-s", "0.2"], ["--dry-run"]]
        steady = ["--heartbeat-s", str(HEARTBEAT_S), "--floor", str(MOST_FRAC)]
        agents = [
            AgentProcess(
                rack.namespace(host),
                arguments(rack, host, policy_path, *options, *steady, most_frac=MOST_FRAC),
            )
            for host, options in zip(hosts, more, strict=True)
        ]
        once, again, dry = agents
        try:
            for agent in agents:
                agent.wait_for("started")
            assert sysctl(rack.namespace(hosts[2]), BEFORE) == before[2]
            names = [None, None, f"ncc_test_{hosts[2]}"]
            with sending(rack, list(zip(hosts, receivers, strict=True)), names):
                sent = [leaving(rack, host) for host in hosts]
                for i in (0, 1):
                    assert eventually(lambda: limited_to(agents[i]) == [LIMIT_BPS])  # noqa: B023 - called at once
                    check_limit(sent[i], LIMIT_BPS)
                assert exceeds(sent[2], 2 * LIMIT_BPS)  # nobody limits it,
                assert eventually(lambda: would_limit(dry))  # but would
                for agent in (once, again):
                    agent.process.send_signal(signal.SIGSTOP)
                for i in (0, 1):
                    assert exceeds(sent[i], 2 * LIMIT_BPS)  # the kernel itself stopped asking
                for agent in (once, again):
                    agent.process.send_signal(signal.SIGCONT)
                assert once.ended() == 1
                assert eventually(lambda: any("decides again" in line["said"] for line in again.events("guard")))
                assert eventually(lambda: not again.events("report")[-1]["handed_back"])
                check_limit(sent[1], LIMIT_BPS)
                assert exceeds(sent[0], 2 * LIMIT_BPS)
                dry.close()
                assert exceeds(sent[2], LIMIT_BPS)  # its connection goes on
            assert again.end() == 0
        finally:
            for agent in agents:
                agent.close()
        assert [sysctl(rack.namespace(host), BEFORE) for host in hosts] == before
    (given_up,) = once.events("given_up")
    assert "no heartbeat came" in given_up["reason"]
    assert not [name for name in AVAILABLE.read_text().split() if name.startswith("ncc_test_")]


def would_limit(agent: AgentProcess) -> bool:
    """True if an agent reports a limit for connections."""
    reports = [line for line in agent.events("report") if line.get("connections")]
    return any(limit is not None and limit <= LIMIT_BPS for line in reports for limit in line["limits_bps"])
