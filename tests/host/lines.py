# SPDX-License-Identifier: BSD-3-Clause
"""A host with an interface that an agent may limit, and checks of it after the agent is killed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.host.agents import AgentProcess, beside_others, restored, sysctl
from tests.linux.lines import Line
from tests.linux.spaces import spaces, wire

OWN, PEER, PEER_IPV6 = "10.8.0.1", "10.8.0.2", "fd00:8::2"
LINK_BPS, LIMIT_BPS, HEARTBEAT_S = 1e8, 1e7, 1.0
FRAC = str(LIMIT_BPS / LINK_BPS)
OPTIONS = [
    *("--interface", "line0", "--link-rate", f"{LINK_BPS:g}", "--uplink-rate", f"{LINK_BPS:g}", "--outside-training"),
    *("--floor", FRAC, "--max-rate-frac", FRAC, "--heartbeat-s", str(HEARTBEAT_S), "--default", "--log-s", "0.2"),
    *("--realtime", "--missed-frac", "1"),
]
"""Options of an agent with a constant limit."""
PATIENT = "--interface line0 --link-rate 1e8 --uplink-rate 1e8 --outside-training --heartbeat-s 60 --missed-frac 1"
"""Options of an agent that a busy machine neither suspends nor ends, as words of a file."""
SETTINGS = ("tcp_congestion_control", "tcp_ecn", "tcp_autocorking")


@contextmanager
def line() -> Iterator[Line]:
    """A line whose packets are no larger than on a wire."""
    ends = [
        f"-n {{{i}}} {what.format(i + 1)} dev line{i} {how}"
        for i in (0, 1)
        for what, how in (
            ("address add 10.8.0.{}/24", ""),
            ("address add fd00:8::{}/64", "nodad"),
            ("link set", "gso_max_segs 1 up"),
        )
    ]
    with beside_others(), spaces("lhost", "lpeer", lines=(wire("line0", "line1"), *ends)) as (host, peer):
        yield Line(host, peer, "line0", PEER)


def state(on: Line) -> list[str]:
    """Queues and filters of the interface, and the settings that agents change."""
    return [on.shown("qdisc"), on.shown("filter", "egress"), *(sysctl(on.host, name) for name in SETTINGS)]


def restore(on: Line) -> str:
    """Output of ``ncc host restore`` in the host's namespace."""
    status, said = restored(on.host)
    assert status == 0
    return said


def kill(on: Line, policy: Path, after_s: float) -> bool:
    """Start an agent on a sending host and kill it at an age, or (negative) a time after it began to limit.

    True if it had begun.
    """
    with AgentProcess(on.host, [str(policy), *OPTIONS, "--name", "ncc_test_q"]) as agent:
        if after_s < 0:
            agent.wait_for("started")
        time.sleep(abs(after_s))
        return bool(agent.events("started"))
