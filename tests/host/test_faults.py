# SPDX-License-Identifier: BSD-3-Clause
"""Traffic of hosts whose agents stand still, are killed, or only observe."""

import signal
from pathlib import Path

import pytest

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

LAB = SingleSwitch(senders=2, receivers=2, rate_bps=5e7, buffer_bytes=150_000, mark_threshold_bytes=30_000)
"""Pairs without common ports, so that each host's rate depends on its own agent only."""
MOST_FRAC = 0.1
LIMIT_BPS = MOST_FRAC * 1e8
HEARTBEAT_S = 1.0
SYSCTLS = ("tcp_congestion_control", "tcp_ecn")
BEFORE = SYSCTLS[0]

pytestmark = needs(*TRAFFIC)


@pytest.mark.attack("n17")
def test_who_stands_still_limits_again_afterwards_and_who_only_looks_changes_nothing(policy_path: Path) -> None:
    """The first agent stands still, the second decides and does not write."""
    with beside_others(), Rack(LAB.build()) as rack:
        by_name = {rack.topology.nodes[host].name: host for host in rack.topology.hosts}
        hosts, receivers = ([by_name[f"{kind}{i}"] for i in range(2)] for kind in ("s", "r"))
        before = [sysctl(rack.namespace(host), BEFORE) for host in hosts]
        steady = ["--heartbeat-s", str(HEARTBEAT_S), "--floor", str(MOST_FRAC), "--hold-off-s", "1"]
        agents = [
            AgentProcess(rack.namespace(host), arguments(rack, host, policy_path, *more, *steady, most_frac=MOST_FRAC))
            for host, more in zip(hosts, (["--default"], ["--dry-run"]), strict=True)
        ]
        still, dry = agents
        try:
            for agent in agents:
                agent.wait_for("started")
            assert sysctl(rack.namespace(hosts[1]), BEFORE) == before[1]
            with sending(rack, list(zip(hosts, receivers, strict=True)), [None, f"ncc_test_{hosts[1]}"]):
                sent = [leaving(rack, host) for host in hosts]
                assert eventually(lambda: limited_to(still) == [LIMIT_BPS])
                check_limit(sent[0], LIMIT_BPS)
                assert exceeds(sent[1], 2 * LIMIT_BPS)  # nobody limits it,
                assert eventually(lambda: would_limit(dry))  # but would
                still.process.send_signal(signal.SIGSTOP)
                assert exceeds(sent[0], 2 * LIMIT_BPS)  # the kernel itself stopped asking
                still.process.send_signal(signal.SIGCONT)
                assert eventually(lambda: said(still, "no heartbeat came"))
                check_limit(sent[0], LIMIT_BPS)  # its share is above the highest limit
                assert eventually(lambda: said(still, "decides again"))
                assert eventually(lambda: not still.events("report")[-1]["suspended"])
                check_limit(sent[0], LIMIT_BPS)
                dry.close()
                assert exceeds(sent[1], LIMIT_BPS)  # its connection goes on
            assert still.end() == 0
        finally:
            for agent in agents:
                agent.close()
        assert [sysctl(rack.namespace(host), BEFORE) for host in hosts] == before
    assert not [name for name in AVAILABLE.read_text().split() if name.startswith("ncc_test_")]


def said(agent: AgentProcess, words: str) -> bool:
    """True if the guard's log has these words."""
    return any(words in line["said"] for line in agent.events("guard"))


def would_limit(agent: AgentProcess) -> bool:
    """True if an agent reports a limit for connections."""
    reports = [line for line in agent.events("report") if line.get("connections")]
    return any(limit is not None and limit <= LIMIT_BPS for line in reports for limit in line["limits_bps"])
