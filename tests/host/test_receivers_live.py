# SPDX-License-Identifier: BSD-3-Clause
"""Agents of four namespaces and real sockets: three servers answer a front end, one after the other."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ncc.core.topologies import ManyToOne
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.policies.file import PolicyFile, packed
from tests.host.agents import AgentProcess, beside_others, free_interface
from tests.linux.sockets import info
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

pytestmark = needs(*TRAFFIC)
SERVERS, LINE_BPS, PERIOD_S = 3, 2e7, 0.01
BUFFER_BYTES = 50_000
"""0.6 of it has no room for a first window of each server, so flows wait for grants."""
STAR = ManyToOne(senders=SERVERS, rate_bps=LINE_BPS, buffer_bytes=100_000, mark_threshold_bytes=30_000)
FRONT, PORT = 1, 5005
SO_SNDBUFFORCE = 32


def slow(file: PolicyFile, path: Path) -> Path:
    """A policy file that decides once in `PERIOD_S`."""
    trained = file.header.trained
    trained = trained.replace(period_s=(trained.period_s[0], PERIOD_S))
    path.write_bytes(packed(file.header.replace(period_s=PERIOD_S, trained=trained), file.policy))
    return path


def agent_of(rack: Rack, host: int, policy: Path, key: str, buffer_bytes: int) -> AgentProcess:
    """An agent without limits and with `--receivers`."""
    peers = ",".join(rack.address(other) for other in rack.topology.hosts if other != host)
    return AgentProcess(
        rack.namespace(host),
        [
            *(str(policy), "--interface", free_interface(rack, host), "--peers", peers, "--key", key),
            *("--receivers", str(buffer_bytes), "--name", f"ncc_test_{host}", "--floor", "1", "--outside-training"),
            *("--link-rate", f"{LINE_BPS:g}", "--uplink-rate", f"{LINE_BPS:g}", "--realtime", "--log-s", "0.2"),
            *("--heartbeat-s", "5", "--missed-frac", "1"),
        ],
    )


@contextmanager
def agents(rack: Rack, policy: Path, key: str, buffer_bytes: int = BUFFER_BYTES) -> Iterator[dict[int, AgentProcess]]:
    """An agent on each host, after all have received states of all."""
    found = {}
    with ExitStack() as undo:
        for host in rack.topology.hosts:
            found[host] = agent_of(rack, host, policy, key, buffer_bytes)
            undo.callback(found[host].close)
        for each in found.values():
            assert each.wait_for("started")["receivers_bytes"] == buffer_bytes
            assert eventually(lambda: reported(each, "stale_peers") == 0)  # noqa: B023 - called at once
        yield found


def reported(agent: AgentProcess, name: str) -> Any:
    """A value in an agent's last report, by name."""
    reports = agent.events("report")
    return reports[-1].get(name) if reports else None


class Answers:
    """A connection of each server to the front end."""

    def __init__(self, rack: Rack, undo: ExitStack) -> None:
        self._senders, self._receivers = list[socket.socket](), list[socket.socket]()
        with namespaces.inside(rack.namespace(FRONT)):
            listener = undo.enter_context(socket.create_server((rack.address(FRONT), PORT)))
        for host in rack.topology.hosts:
            if host == FRONT:
                continue
            with namespaces.inside(rack.namespace(host)):
                sender = undo.enter_context(socket.socket())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, f"ncc_test_{host}".encode())
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 21)  # an answer fits, so its size is known
            sender.connect((rack.address(FRONT), PORT))
            self._senders.append(sender)
            self._receivers.append(undo.enter_context(listener.accept()[0]))

    def begin(self, *sizes_bytes: int) -> list[threading.Thread]:
        """Make all servers answer now; return the threads that read the answers."""
        self._before = [info(receiver).received_bytes for receiver in self._receivers]
        pairs = zip(self._receivers, sizes_bytes, strict=True)
        reading = [threading.Thread(target=_read, args=each, daemon=True) for each in pairs]
        for thread in reading:
            thread.start()
        for sender, size in zip(self._senders, sizes_bytes, strict=True):
            sender.sendall(bytes(size))
        return reading

    def came(self, i: int) -> int:
        """Bytes that have come from a server."""
        return info(self._receivers[i]).received_bytes - self._before[i]

    def when_next_begins(self, begun: list[int]) -> int:
        """Wait until one more server has begun; the bytes that had come from the one before it."""
        waiting = [i for i in range(SERVERS) if i not in begun]
        assert eventually(lambda: any(self.came(i) for i in waiting))
        begun += [i for i in waiting if self.came(i)]
        return self.came(begun[-2]) if len(begun) > 1 else 0


def _read(receiver: socket.socket, left: int) -> None:
    while left > 0:
        left -= len(receiver.recv(1 << 16))


@pytest.mark.timing
def test_servers_answer_in_turn(policy_file: PolicyFile, tmp_path: Path, key: str) -> None:
    """200 KB take 82 ms, of which a quarter of the buffer (5 ms) may lie ahead of the next."""
    with beside_others(), Rack(STAR.build()) as rack, ExitStack() as undo:
        undo.enter_context(agents(rack, slow(policy_file, tmp_path / "slow.ncc"), key))
        answers = Answers(rack, undo)
        reading, begun = answers.begin(200_000, 200_000, 200_000), list[int]()
        for _ in range(SERVERS):
            before = answers.when_next_begins(begun)
            assert len(begun) == 1 or before > 60_000
        for thread in reading:
            thread.join()


@pytest.mark.timing
def test_servers_begin_at_once_while_the_front_end_says_so(policy_file: PolicyFile, tmp_path: Path, key: str) -> None:
    """0.6 of 100 KB has room for a first window of each server, but not beside 1 MB that is missing."""
    with beside_others(), Rack(STAR.build()) as rack, ExitStack() as undo:
        found = undo.enter_context(agents(rack, slow(policy_file, tmp_path / "slow.ncc"), key, 100_000))
        answers = Answers(rack, undo)
        reading = answers.begin(1_000_000, 0, 0)
        time.sleep(5 * PERIOD_S)
        reading += answers.begin(0, 10_000, 0)
        for thread in reading:
            thread.join()
        servers = [found[host] for host in rack.topology.hosts if host != FRONT]
        assert [server.end() for server in servers] == [0] * SERVERS
        woken = [server.events("ended")[0]["receivers"]["woken"] for server in servers]
        assert (woken[0], woken[1] > 0) == (0, True)


def test_servers_go_on_when_the_front_end_s_agent_is_killed(policy_file: PolicyFile, tmp_path: Path, key: str) -> None:
    """Their order, and how many of them waited, depends on whether agents keep up; that all answers come does not."""
    with beside_others(), Rack(STAR.build()) as rack, ExitStack() as undo:
        found = undo.enter_context(agents(rack, slow(policy_file, tmp_path / "slow.ncc"), key))
        answers = Answers(rack, undo)
        reading = answers.begin(1_200_000, 1_300_000, 1_400_000)
        assert eventually(lambda: any(map(answers.came, range(SERVERS))))
        found[FRONT].process.kill()
        for thread in reading:
            thread.join()
        servers = [found[host] for host in rack.topology.hosts if host != FRONT]
        assert [server.end() for server in servers] == [0] * SERVERS
        counted = [server.events("ended")[0]["receivers"] for server in servers]
        assert [each["held"] for each in counted] == [0] * SERVERS
        assert any(each["woken"] for each in counted)  # a late agent's flows begin by themselves
