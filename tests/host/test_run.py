# SPDX-License-Identifier: BSD-3-Clause
"""Agents on hosts of real traffic: their limits, their messages, and their remains."""

import signal
from pathlib import Path

import pytest

from ncc.core.memory import memory_bytes
from ncc.core.topologies import ManyToOne
from ncc.envs.linux.rack import Rack
from tests.host.agents import (
    AVAILABLE,
    AgentProcess,
    arguments,
    beside_others,
    busy,
    leaving,
    limited_to,
    received_messages,
    sending,
    sysctl,
)
from tests.linux.rates import check_limit
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

LINK_BPS = 1e8
LAB = ManyToOne(senders=2, rate_bps=LINK_BPS, buffer_bytes=150_000, mark_threshold_bytes=30_000)
MOST_FRAC = 0.3
"""Share of the link that tests allow, so that they do not depend on the policy."""
MESSAGES_BPS = 8 * 148 * 1000
"""Rate of an agent's messages to one peer."""
LESS_THAN_MB = 70

SYSCTLS = ("tcp_congestion_control", "tcp_ecn")

pytestmark = needs(*TRAFFIC)


@pytest.mark.parametrize("name", ["policy_path", "learned_path"])
def test_agents_hold_hosts_to_limits_share_what_they_see_and_leave_nothing(
    name: str, request: pytest.FixtureRequest, key: str, tmp_path: Path
) -> None:
    policy = request.getfixturevalue(name)
    with beside_others(), Rack(LAB.build()) as rack:
        by_name = {rack.topology.nodes[host].name: host for host in rack.topology.hosts}
        hosts, receiver = [by_name["s0"], by_name["s1"]], by_name["receiver"]
        before = [[sysctl(rack.namespace(host), name) for host in hosts] for name in SYSCTLS]
        common = ["--key", key, "--default", "--heartbeat-s", "5", "--knows", "sizes"]
        files = [tmp_path / f"{host}.prom" for host in hosts]
        agents = [
            AgentProcess(
                rack.namespace(host),
                arguments(
                    *(rack, host, policy, "--peers", rack.address(other), "--metrics", str(file), *common),
                    most_frac=MOST_FRAC,
                ),
            )
            for host, other, file in zip(hosts, hosts[::-1], files, strict=True)
        ]
        try:
            for agent in agents:
                agent.wait_for("started")
            assert [sysctl(rack.namespace(host), SYSCTLS[0]) for host in hosts] == [f"ncc_test_{h}" for h in hosts]
            with sending(rack, [(host, receiver) for host in hosts]):
                for agent, host in zip(agents, hosts, strict=True):
                    assert eventually(lambda: limited_to(agent) and busy(agent))  # noqa: B023 - called at once
                    check_limit(leaving(rack, host), MOST_FRAC * LINK_BPS + MESSAGES_BPS, reached_frac=0.2)
                assert eventually(lambda: any(not report["stale_peers"] for report in busy(agents[0])))
                agents[0].process.send_signal(signal.SIGHUP)
                assert agents[0].wait_for("config")["said"].endswith("were read again and are in force")
                assert eventually(lambda: min(map(received_messages, files)) > 200)
                shown = files[0].read_text()
                peak_mb = [memory_bytes("VmHWM", agent.process.pid) / 2**20 for agent in agents]
            statuses = [agents[0].end(signal.SIGTERM), agents[1].end(signal.SIGINT)]
        finally:
            for agent in agents:
                agent.close()
        after = [[sysctl(rack.namespace(host), name) for host in hosts] for name in SYSCTLS]
    assert statuses == [0, 0]
    assert after == before
    assert not [name for name in AVAILABLE.read_text().split() if name.startswith("ncc_test_")]
    for agent, mb in zip(agents, peak_mb, strict=True):
        line = agent.wait_for("ended")
        assert line["guard"]["suspensions"] == 0
        assert line["messages"]["forged"] == line["messages"]["unknown_sender"] == 0
        assert mb < LESS_THAN_MB
    assert all(report["limits_bps"][0] <= MOST_FRAC * LINK_BPS for report in busy(agents[0]))
    assert not agents[0].events("untrusted")
    assert "ncc_active 1" in shown
    assert 'ncc_limit_bps{host="0"}' in shown
    assert "ncc_log_lost_total 0" in shown
