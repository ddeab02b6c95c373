# SPDX-License-Identifier: BSD-3-Clause
"""`ncc host status` and `explain`: from records of agents, without a kernel's queue."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ncc.core.units import NS_PER_S
from ncc.envs.linux import machine
from ncc.host import record, restore, status
from ncc.host.__main__ import main
from ncc.host.record import AgentRecord, Demand, HostRecord, PeerRecord

HOST = HostRecord(
    interface="eth0",
    demand=Demand(12.5e6, 250_000, 3),
    link_bps=1e8,
    fair_bps=2.5e7,
    decided_bps=3e7,
    limit_bps=2e7,
    sent_bps=1.9e7,
)
BUSY = PeerRecord("10.0.0.2:947", 0.0012, stale=False, demand=Demand(4e7, 2e6, 5))
IDLE = PeerRecord("10.0.0.3:947", 0.0004, stale=False, demand=Demand(0.0, 0.0, 0))
SILENT = PeerRecord("10.0.0.4:947", None, stale=True, demand=Demand(0.0, 0.0, 0))
Put = Callable[..., AgentRecord]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> dict[str, float | None]:
    """Limits of the kernel's queues."""
    limits: dict[str, float | None] = {"eth0": 2e7}
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(2, "eth0")])
    monkeypatch.setattr(status, "kernel_limits_bps", lambda name: [limits[name]] if name in limits else [])
    return limits


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: dict[str, float | None]) -> Put:
    """A function that writes the record of an agent, of this process unless it says otherwise."""
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    given = AgentRecord(
        pid=os.getpid(),
        time_ns=0,
        began=time.time() - 7300,
        policy="ncc",
        sha256="ab" * 32,
        congestion="ncc_dctcp",
        dry_run=False,
        decider="policy",
        since=time.time(),
        why="",
        bounds_frac=(0.01, 0.2),
        uplink_bps=1e8,
        uplink_age_s=None,
        uplink_stale=False,
        alone=False,
        refused="",
        fixed={},
        hosts=[HOST],
        peers=[BUSY, IDLE],
    )

    def put(**changes: Any) -> AgentRecord:
        made = msgspec.structs.replace(given, **{"time_ns": time.monotonic_ns(), **changes})
        (tmp_path / f"{machine.namespace_cookie()}-{made.pid}.json").write_bytes(msgspec.json.encode(made))
        return made

    return put


def ended() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status and output, whose lines fit a terminal of 80 columns."""
    status_ = main([*arguments])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80 or "--json" in arguments
    return status_, text


def test_a_healthy_host_is_fine_at_a_glance(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "left", lambda: {"/proc/self/comm": restore.Changed("other", _comm())})
    put()
    code, text = said(capsys, "status")
    assert code == 0
    assert text.startswith("FINE ")
    assert "process" in text
    assert "for 2 h" in text
    assert "limit 20 Mbit/s of 100 Mbit/s, by the policy since" in text
    assert "it sends 19 Mbit/s, 250 kB queued in 3 flows" in text, "a mean, not the last millisecond"
    assert "10.0.0.2:947 heard 1 ms ago, sends 40 Mbit/s, 2 MB queued in 5 flows" in text
    assert "10.0.0.3:947 heard under 1 ms ago, is idle" in text
    assert "eth0: root queue HTB (1:), filter ncc_order at egress" in text
    assert f"comm = {_comm()} (before: other)" in text
    assert "congestion control ncc_dctcp registered" in text


def _comm() -> str:
    return Path("/proc/self/comm").read_text().strip()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"peers": [BUSY, SILENT]}, "1 of 2 neighbours are silent: 10.0.0.4:947."),
        (
            {"decider": "fair share", "why": "no heartbeat came"},
            "by the fair share, not by the policy: no heartbeat came.",
        ),
        (
            {"decider": "formula", "why": "messages are missing"},
            "by the formula LOCAL, not by the policy: messages are missing.",
        ),
        (
            {"decider": "last limits", "why": ""},
            "by the last good decision, not by the policy: no decision was possible.",
        ),
        ({"uplink_stale": True}, "The uplink's state does not come."),
        ({"refused": "--port changes"}, "The last reload was refused: --port changes."),
    ],
)
def test_a_host_that_is_not_limited_as_configured_is_degraded(
    changes: dict[str, Any], expected: str, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(**changes)
    code, text = said(capsys, "status")
    assert code == 1
    assert text.startswith("DEGRADED ")
    assert expected in " ".join(text.split())


def test_a_setting_that_somebody_else_changed_is_named(
    put: Put, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "left", lambda: {"/proc/self/comm": restore.Changed("before", "ours")})
    put()
    code, text = said(capsys, "status")
    assert code == 1
    assert f"comm is {_comm()}, which somebody set; the agent had set ours." in " ".join(text.split())


def test_without_a_living_agent_nothing_limits(
    put: Put, kernel: dict[str, float | None], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.clear()
    assert said(capsys, "status")[0] == 2
    stuck = put(time_ns=time.monotonic_ns() - 12 * NS_PER_S)
    code, text = said(capsys, "status")
    assert (code, text[:5]) == (2, "DEAD ")
    assert f"The agent (process {stuck.pid}) was killed or hangs: its last record is 12 s old." in " ".join(
        text.split()
    )
    kernel["eth0"] = 2e7
    assert "`ncc host restore`, or the next agent, removes them" in " ".join(said(capsys, "status")[1].split())
    put(pid=ended())
    assert said(capsys, "status")[0] == 2, "its record is new and its process is gone"
    put(dry_run=True)
    assert said(capsys, "status")[0] == 2, "one that dry-runs beside a dead one limits nothing"
    kernel.clear()
    record.sweep()
    put()
    code, text = said(capsys, "status")
    assert (code, text[:5]) == (2, "DEAD "), "it lives, and its queue is gone"
    assert "eth0 has no queue of the agent any more" in text


def test_a_dry_run_is_compared_with_what_limits(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(pid=os.getppid(), dry_run=True, hosts=[msgspec.structs.replace(HOST, limit_bps=1.5e7)])
    code, text = said(capsys, "status")
    assert code == 2, "the queue of a dead agent is there"
    put()
    code, text = said(capsys, "status")
    assert code == 0
    assert f"dry run of ncc (process {os.getppid()}): 15 Mbit/s, -25 %" in text


def test_an_agent_that_dry_runs_alone_is_no_failure(
    put: Put, kernel: dict[str, float | None], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.clear()
    put(dry_run=True)
    code, text = said(capsys, "status")
    assert code == 0
    assert "an agent dry-runs, nothing is limited" in text
    assert "no limit; it would be 20 Mbit/s of 100 Mbit/s" in text


@pytest.mark.parametrize(("age_s", "does"), [(2.0, "sends 40 Mbit/s, 2 MB queued in 5 flows"), (9.0, "counts as idle")])
def test_a_silent_neighbour_is_shown_as_it_counts(
    age_s: float, does: str, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(peers=[msgspec.structs.replace(BUSY, age_s=age_s, stale=True)])
    assert f"10.0.0.2:947 heard {age_s:.0f} s ago, {does}" in said(capsys, "status")[1]


def test_of_many_neighbours_those_heard_longest_ago_are_shown(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(peers=[msgspec.structs.replace(IDLE, name=f"10.0.0.{i}:947", age_s=i / 1000) for i in range(2, 60)])
    text = said(capsys, "status")[1]
    assert "10.0.0.59:947 heard 59 ms ago" in text
    assert "10.0.0.51:947" not in text
    assert "and 50 others, heard later" in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "The policy ncc answered 30 Mbit/s. The bounds are 1 Mbit/s to 20 Mbit/s, and made 20 Mbit/s of it."),
        ({"decider": "formula", "why": "x"}, "The formula LOCAL (x) answered 30 Mbit/s."),
        ({"decider": "fair share", "why": "overload"}, "is suspended: overload. So the fair share holds."),
        (
            {"decider": "fair share", "why": "x"},
            "the fair share holds. The bounds are 1 Mbit/s to 20 Mbit/s, and made 20 Mbit/s of it.",
        ),
        (
            {"decider": "last limits", "why": "NaN"},
            "no usable decision: NaN. So the last good limit holds. The bounds are 1 Mbit/s to 20 Mbit/s; they changed",
        ),
        ({"dry_run": True}, "eth0 would be allowed 20 Mbit/s. This is a dry run: nothing enforces it."),
    ],
)
def test_the_limit_is_explained_by_the_numbers_of_the_last_decision(
    changes: dict[str, Any], expected: str, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put(**changes)
    text = " ".join(said(capsys, "explain")[1].split())
    assert expected in text
    for part in (
        "In the last period it sent 12.5 Mbit/s, 250 kB queued in 3 flows.",
        "1 of 2 neighbours had something to send: together they sent 40 Mbit/s, 2 MB queued in 5 flows.",
        "The fair share of the uplink (100 Mbit/s for 3 hosts) is 25 Mbit/s.",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("rate_bps", "text"),
    [(0.0, "0 bit/s"), (999.7, "1 kbit/s"), (999.4e6, "999 Mbit/s"), (999.7e6, "1 Gbit/s"), (2.345e9, "2.35 Gbit/s")],
)
def test_a_rate_has_three_digits(rate_bps: float, text: str, put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(hosts=[msgspec.structs.replace(HOST, sent_bps=rate_bps)])
    assert f"it sends {text}, 250 kB queued" in said(capsys, "status")[1]


def test_a_host_without_an_agent_has_no_reasons(
    put: Put, kernel: dict[str, float | None], capsys: pytest.CaptureFixture[str]
) -> None:
    kernel.clear()
    assert said(capsys, "explain") == (
        2,
        "No agent limits this network namespace. Nothing limits its interfaces but their\nlines.\n",
    )


def test_json_has_all_of_it(put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put(refused="x")
    code, text = said(capsys, "status", "--json")
    found = json.loads(text)
    assert (code, found["state"], found["kernel_bps"]) == (1, "degraded", {"eth0": 2e7})
    assert found["agents"][0]["hosts"][0]["decided_bps"] == 3e7


def test_records_of_another_version_and_of_dead_agents_disturb_nothing(
    put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = tmp_path / f"{machine.namespace_cookie()}-{ended()}.json"
    dead.write_text('{"pid": "x"}')
    put()
    assert said(capsys, "status")[0] == 0
    record.sweep()
    assert not dead.exists()
    assert len(list(tmp_path.iterdir())) == 1, "that of a living one stays"


def test_a_living_agent_of_another_version_does_not_pass_for_none(
    put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put()
    (path,) = tmp_path.iterdir()
    path.write_text("{}")
    assert main(["status"]) == 1
    assert "perhaps as it is of another version of ncc: restart the agent" in capsys.readouterr().err
