# SPDX-License-Identifier: BSD-3-Clause
"""Agents that limit an interface: all packets count, and no limit stays when they are killed."""

import re
import runpy
import socket
import struct
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.linux import layout
from ncc.envs.linux.order_program import CLASSES, SIZE_LEVEL, SIZE_OPTION
from ncc.envs.linux.queue import FIRST
from ncc.host.__main__ import main
from ncc.policies.export import ExportSpec, export
from ncc.policies.file import load_policy_file, packed
from tests.host.agents import ROOT, AgentProcess, limited_to, sysctl
from tests.host.lines import LIMIT_BPS, OPTIONS, OWN, PEER, PEER_IPV6, kill, line, restore, state
from tests.linux.lines import CHUNK, Line, sending
from tests.linux.rates import check_limit, exceeds
from tests.linux.sockets import unacknowledged
from tests.linux.spaces import say
from tests.linux.test_sources import NOBODY, connections, of_nobody
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

PIECE_BYTES = 10_000
send_message = runpy.run_path(str(ROOT / "examples" / "tell_size.py"))["send_message"]
NAMED = [*OPTIONS, "--name", "ncc_test_q"]
MESSAGE_BYTES = 120 + 8 + 20 + 14
"""With headers of UDP, IPv4 and Ethernet."""

pytestmark = needs(*TRAFFIC)


def classes(on: Line) -> list[int]:
    """Bytes that have left by each class of the order."""
    shown = ["tc", "-n", on.host, "-s", "class", "show", "dev", "line0"]
    text = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    sent = dict(re.findall(r"^class htb 2:(\w+) .*\n Sent (\d+) bytes", text, re.MULTILINE))
    return [int(sent[f"{(FIRST & 0xFFFF) + i:x}"]) for i in range(CLASSES)]


def takes_sizes(sender: socket.socket) -> bool:
    """True if a program takes the sizes that an application announces."""
    try:
        sender.setsockopt(SIZE_LEVEL, SIZE_OPTION, struct.pack("=I", 1))
    except OSError:
        return False
    return True


@pytest.mark.attack("1")
def test_all_that_leaves_an_interface_is_limited_together(policy_path: Path) -> None:
    with line() as on, ExitStack() as opened:
        before = state(on)
        old = opened.enter_context(on.flowing())
        with sending(old):
            assert exceeds(on.count, 2 * LIMIT_BPS)
            agent = opened.enter_context(AgentProcess(on.host, [str(policy_path), *NAMED]))
            assert eventually(lambda: limited_to(agent) == [LIMIT_BPS])
            check_limit(on.count, LIMIT_BPS)
        senders = (
            opened.enter_context(on.flowing("cubic")),
            opened.enter_context(on.datagrams()),
            opened.enter_context(on.flowing(to=PEER_IPV6, family=socket.AF_INET6)),
            opened.enter_context(on.flowing()),  # by the agent's own controller
        )
        for together in (*((sender,) for sender in senders), (old, *senders)):
            with sending(*together):
                check_limit(on.count, LIMIT_BPS)
        assert agent.end() == 0
        assert state(on) == before
    ended = agent.wait_for("ended")
    assert ended["guard"]["suspensions"] == 0
    assert ended["queue"]["limited_bytes"] > 1e6


def test_each_interface_of_an_agent_has_its_limit_and_gets_its_queue_back(policy_path: Path) -> None:
    with line() as on, ExitStack() as opened:
        say(f"link add other0 netns {on.host} type veth peer name other1 netns {on.peer}")
        for name, device, address in ((on.host, "other0", "10.9.0.1"), (on.peer, "other1", "10.9.0.2")):
            say(f"-n {name} address add {address}/24 dev {device}")
            say(f"-n {name} link set {device} gso_max_segs 1 up")
        ends = [on, Line(on.host, on.peer, "other0", "10.9.0.2")]
        before = [end.shown("qdisc") for end in ends]
        agent = opened.enter_context(AgentProcess(on.host, [str(policy_path), *NAMED, "--interface", "other0"]))
        assert eventually(lambda: limited_to(agent) == [LIMIT_BPS] * 2)
        with sending(*(opened.enter_context(end.datagrams()) for end in ends)):
            for end in ends:
                check_limit(end.count, LIMIT_BPS)
        assert agent.end() == 0
        assert [end.shown("qdisc") for end in ends] == before


@pytest.mark.attack("n41", "n41c", "n50", "n48")
def test_a_receiver_that_does_not_read_lifts_no_limit_and_is_no_demand(policy_path: Path) -> None:
    """Any user may have such a connection; a paused download is one."""
    with line() as on, AgentProcess(on.host, [str(policy_path), *NAMED]) as agent:
        agent.wait_for("report")
        with on.connected("ncc_test_q") as (sender, _), on.datagrams() as others:
            sender.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    sender.send(CHUNK)
            assert eventually(lambda: demand(agent) == (1, 0))
            since = agent.events("report")[-1]["periods"]
            with sending(others):
                assert eventually(lambda: agent.events("report")[-1]["periods"] > since + 6000)
                check_limit(on.count, LIMIT_BPS)
            assert demand(agent) == (1, 0)
        assert agent.end() == 0
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0


@pytest.mark.attack("n3")
@needs("setpriv")
def test_busy_loops_of_a_user_lift_no_limit(policy_path: Path) -> None:
    """With `--realtime`, as in the unit; Nice=-20 alone does not do."""
    assert "--realtime" in NAMED
    busy = [*of_nobody(), "sh", "-c", "while :; do :; done"]
    with line() as on, AgentProcess(on.host, [str(policy_path), *NAMED]) as agent, on.datagrams() as sender:
        before, loops = agent.wait_for("report"), [subprocess.Popen(busy) for _ in range(64)]
        try:
            with sending(sender):
                assert eventually(lambda: agent.events("report")[-1]["periods"] > before["periods"] + 6000)
                check_limit(on.count, LIMIT_BPS)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert agent.end() == 0
    ended = agent.wait_for("ended")
    assert ended["guard"]["suspensions"] == 0
    assert ended["queue"]["open_bytes"] < 3_000, "neighbour discovery"


@pytest.mark.attack("n41b")
@needs("setpriv")
def test_users_who_fill_the_table_of_reports_lift_no_limit(policy_path: Path) -> None:
    """Root's connection has no place in it then, and nothing is heard of what it sends."""
    with line() as on, ExitStack() as opened:
        agent = opened.enter_context(AgentProcess(on.host, [str(policy_path), *OPTIONS, "--name", "ncc_test_s"]))
        agent.wait_for("report")
        for user in (NOBODY, NOBODY - 1):
            by = ["ip", "netns", "exec", on.host, *of_nobody(user=user)]
            opened.enter_context(connections(by, layout.FLOWS_MAX // 2 + 20, address=OWN, controller="ncc_test_s"))
        assert eventually(lambda: demand(agent)[0] == layout.FLOWS_MAX)
        with on.flowing("ncc_test_s") as unreported, sending(unreported):
            since = agent.events("report")[-1]["periods"]
            assert eventually(lambda: agent.events("report")[-1]["periods"] > since + 6000)
            check_limit(on.count, LIMIT_BPS)
            assert agent.process.poll() is None
        assert agent.end() == 0
    ended = agent.wait_for("ended")
    assert (ended["guard"]["suspensions"], ended["why"]) == (0, "signal SIGTERM")


def demand(agent: AgentProcess) -> tuple[int, float]:
    """Connections of a host, and the bytes that wait in it, by its agent's last report."""
    report = agent.events("report")[-1]
    return report.get("connections", 0), sum(report.get("queued_bytes", [0]))


def test_messages_of_the_agent_itself_go_beside_the_limit(policy_path: Path, key: str) -> None:
    with (
        line() as on,
        on.datagrams() as sender,
        sending(sender),
        AgentProcess(on.host, [str(policy_path), *NAMED, "--peers", PEER, "--key", key]) as agent,
    ):
        first = agent.wait_for("report")
        assert eventually(lambda: agent.events("report")[-1]["periods"] > first["periods"] + 500)
        assert agent.end() == 0
    ended = agent.wait_for("ended")
    sent = ended["messages"]["sent"] - (first["periods"] - first["missed_periods"])  # none is sent in a missed period
    sent_bytes = sent * MESSAGE_BYTES
    beside_bytes = ended["queue"]["open_bytes"] - first["queue"]["open_bytes"]
    assert 0.25 * sent_bytes < beside_bytes < 1.1 * sent_bytes, "the queue is read before the last messages"


def test_a_send_buffer_makes_whole_messages_known_and_is_put_back(policy_path: Path) -> None:
    def buffers() -> list[int]:
        return [int(text) for text in sysctl(on.host, "tcp_wmem").split()]

    def room() -> int:
        """Send buffer of a new connection."""
        with on.flowing() as sender:
            return sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    with line() as on:
        before = buffers(), room()
        with AgentProcess(on.host, [str(policy_path), *NAMED, "--send-buffer", "1000000"]) as agent:
            agent.wait_for("started")
            during = buffers(), room()
            with on.flowing() as sender:
                sender.setblocking(False)
                at_once_bytes = sender.send(bytes(1_000_000))
            assert agent.end() == 0
        assert during[0] == [before[0][0], 2_000_000, before[0][2]]
        assert buffers() == before[0]
        assert before[1] < 1_000_000
        assert during[1] >= 2_000_000
        assert at_once_bytes == 1_000_000


@pytest.mark.parametrize("after_s", [-0.1, 0.5])
@pytest.mark.attack("n18")
def test_an_agent_that_is_killed_leaves_no_limit_and_restore_leaves_nothing(policy_path: Path, after_s: float) -> None:
    with line() as on, on.flowing() as sender, sending(sender):
        before = state(on)
        kill(on, policy_path, after_s)
        assert exceeds(on.count, 2 * LIMIT_BPS)
        restore(on)
        assert state(on) == before


def test_an_agent_goes_on_where_another_was_killed(policy_path: Path) -> None:
    with line() as on, on.flowing() as sender, sending(sender):
        before = state(on)
        assert kill(on, policy_path, -0.1)
        assert state(on) != before
        with AgentProcess(on.host, [str(policy_path), *NAMED]) as after:
            after.wait_for("report")
            check_limit(on.count, LIMIT_BPS)
            assert after.end() == 0
        assert state(on) == before


def test_a_queue_that_somebody_set_up_is_left_alone(policy_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from ncc.envs.linux import namespaces

    with line() as on:
        tbf = "qdisc add dev line0 root handle 7: tbf rate 50mbit burst 10kb limit 100kb"
        subprocess.run(["tc", "-n", on.host, *tbf.split()], check=True)
        before = state(on)
        with namespaces.inside(on.host):
            assert main(["run", str(policy_path), *NAMED]) == 2
        said = capfd.readouterr().err
        assert "line0 has a queue that somebody set up (tbf 7:): remove it (tc qdisc del dev line0 root)" in said
        assert said.count("\n") == 1
        assert state(on) == before


@pytest.mark.attack("n13")
def test_a_queue_whose_classes_somebody_changes_ends_the_agent(policy_path: Path) -> None:
    with line() as on, on.flowing() as sender, sending(sender):
        before = state(on)
        with AgentProcess(on.host, [str(policy_path), *NAMED]) as agent:
            agent.wait_for("report")
            change = "class change dev line0 classid 1:18 parent 1:2 htb rate 1gbit"
            subprocess.run(["tc", "-n", on.host, *change.split()], check=True)
            assert agent.ended() == 1
        assert "Another program has changed the queue of line0" in agent.wait_for("ended")["why"]
        assert state(on) == before


@pytest.mark.attack("n5")
@pytest.mark.parametrize("offset_s", [600, -5])
def test_an_agent_with_another_clock_than_the_kernel_s_does_not_start(policy_path: Path, offset_s: int) -> None:
    with line() as on:
        before, clock = state(on), ["unshare", "--time", f"--monotonic={offset_s}", "--fork", "--kill-child"]
        with AgentProcess(on.host, [str(policy_path), *NAMED], clock) as agent:
            assert agent.ended() == 1
        assert f"clock of this process is {offset_s} s ahead of the kernel's" in "".join(agent.rest)
        assert state(on) == before


@pytest.mark.attack("n13")
def test_a_queue_that_somebody_replaces_ends_the_agent(policy_path: Path) -> None:
    with line() as on, on.flowing() as sender, sending(sender):
        with AgentProcess(on.host, [str(policy_path), *NAMED]) as agent:
            agent.wait_for("report")  # its limit is in force
            subprocess.run(["tc", "-n", on.host, *["qdisc", "replace", "dev", "line0", "root", "pfifo"]], check=True)
            assert agent.ended() == 1
        assert "Another program has replaced the queue of line0" in agent.wait_for("ended")["why"]
        assert state(on)[0].startswith("qdisc pfifo "), "what somebody set up stays"


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.attack("n13")
def test_a_filter_that_somebody_removes_leaves_no_limit(policy_path: Path, killed: bool) -> None:
    with line() as on, on.flowing() as sender, sending(sender):
        before = state(on)
        with AgentProcess(on.host, [str(policy_path), *NAMED]) as agent:
            agent.wait_for("report")
            if killed:
                agent.close()
            subprocess.run(["tc", "-n", on.host, *["qdisc", "del", "dev", "line0", "clsact"]], check=True)
            if not killed:
                assert agent.ended() == 1
                assert "removed the filter ncc_order of line0" in agent.wait_for("ended")["why"]
        if killed:
            assert "line0 is without an agent's queue again" in restore(on)
        assert state(on) == before
        assert exceeds(on.count, 2 * LIMIT_BPS)


def test_the_size_that_an_application_tells_gives_its_place_in_the_order(tmp_path: Path) -> None:
    file = load_policy_file(export(ExportSpec(policy="ncc", out=str(tmp_path / "trained.ncc"), period_s=0.001)))
    largest = tuple((f"class{i}_bytes", PIECE_BYTES * i) for i in range(1, 8))
    stack = file.header.stack.replace(order="known", order_params=largest)
    (policy := tmp_path / "policy.ncc").write_bytes(packed(file.header.replace(stack=stack), file.policy))
    with line() as on, on.flowing() as sender:
        before = state(on)
        with AgentProcess(on.host, [str(policy), *NAMED]) as agent:
            assert agent.wait_for("started")["takes_sizes"]
            agent.wait_for("report")  # it decides
            for in_pieces, place in ((True, 0), (False, 4)):
                then = classes(on)
                if in_pieces:
                    for _ in range(5):  # the application says no more than it has
                        sender.sendall(bytes(PIECE_BYTES))
                        assert eventually(lambda: not unacknowledged(sender))
                else:
                    send_message(sender, bytes(5 * PIECE_BYTES))
                    assert eventually(lambda: not unacknowledged(sender))
                sent = np.subtract(classes(on), then)
                assert sent[place] > 5 * PIECE_BYTES
                assert sent.sum() - sent[place] < PIECE_BYTES / 10, "nothing with payload"
        assert eventually(lambda: not takes_sizes(sender))
        send_message(sender, bytes(PIECE_BYTES))  # all the same
        restore(on)
        assert state(on) == before
