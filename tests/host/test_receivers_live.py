# SPDX-License-Identifier: BSD-3-Clause
"""Agents of four namespaces and real sockets: three servers answer a front end, one after the other."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ncc.core.topologies import ManyToOne
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.policies.file import PolicyFile, packed
from tests.host.agents import AgentProcess, beside_others
from tests.support.linux import TRAFFIC, needs

pytestmark = needs(*TRAFFIC, "ip")
SERVERS, LINE_BPS, BUFFER_BYTES, PERIOD_S = 3, 2e7, 100_000, 0.01
STAR = ManyToOne(senders=SERVERS, rate_bps=LINE_BPS, buffer_bytes=BUFFER_BYTES, mark_threshold_bytes=30_000)
FRONT, PORT = 1, 5005
SO_SNDBUFFORCE = 32
SLACK_S = 0.03
"""For a machine with other work."""


def slow(file: PolicyFile, path: Path) -> Path:
    """A policy file that decides once in `PERIOD_S`."""
    trained = file.header.trained
    trained = trained.replace(period_s=(trained.period_s[0], PERIOD_S))
    path.write_bytes(packed(file.header.replace(period_s=PERIOD_S, trained=trained), file.policy))
    return path


def agent_of(rack: Rack, host: int, policy: Path, key: str) -> AgentProcess:
    """An agent that limits nothing and knows of receivers."""
    peers = ",".join(rack.address(other) for other in rack.topology.hosts if other != host)
    return AgentProcess(
        rack.namespace(host),
        [
            *(str(policy), "--address", rack.address(host), "--peers", peers, "--key", key),
            *("--receivers", str(BUFFER_BYTES), "--name", f"ncc_test_{host}", "--floor", "1", "--outside-training"),
            *("--link-rate", f"{LINE_BPS:g}", "--uplink-rate", f"{LINE_BPS:g}", "--realtime", "--log-s", "0.2"),
        ],
    )


@contextmanager
def agents(rack: Rack, policy: Path, key: str) -> Iterator[dict[int, AgentProcess]]:
    """One on each host, all of which have heard of all."""
    found = {}
    with ExitStack() as undo:
        for host in rack.topology.hosts:
            found[host] = agent_of(rack, host, policy, key)
            undo.callback(found[host].close)
        for each in found.values():
            assert each.wait_for("started")["receivers_bytes"] == BUFFER_BYTES
        time.sleep(0.5)
        yield found


class Answers:
    """A connection of each server to the front end, and the times at which the first and last byte arrived."""

    def __init__(self, rack: Rack, undo: ExitStack) -> None:
        self.first_s, self.last_s, self._pairs = [0.0] * SERVERS, [0.0] * SERVERS, list[tuple[socket.socket, ...]]()
        with namespaces.inside(rack.namespace(FRONT)):
            listener = undo.enter_context(socket.create_server((rack.address(FRONT), PORT)))
        servers = [host for host in rack.topology.hosts if host != FRONT]
        for host in servers:
            with namespaces.inside(rack.namespace(host)):
                sender = undo.enter_context(socket.socket())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, f"ncc_test_{host}".encode())
            sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 21)  # an answer fits, so its size is known
            sender.connect((rack.address(FRONT), PORT))
            receiver = undo.enter_context(listener.accept()[0])
            receiver.settimeout(5.0)
            self._pairs.append((sender, receiver))

    def begin(self, *sizes_bytes: int) -> list[threading.Thread]:
        """Have all servers answer now; threads that read the answers."""
        reading = [threading.Thread(target=self._read, args=(i, size)) for i, size in enumerate(sizes_bytes)]
        for thread in reading:
            thread.start()
        for (sender, _), size in zip(self._pairs, sizes_bytes, strict=True):
            sender.sendall(bytes(size))
        return reading

    def _read(self, i: int, size: int) -> None:
        with suppress(TimeoutError):
            left = size
            while left > 0:
                n = len(self._pairs[i][1].recv(1 << 16))
                self.first_s[i] = time.monotonic() if left == size else self.first_s[i]
                left -= n
            self.last_s[i] = time.monotonic()


def test_servers_answer_in_turn_and_go_on_when_the_front_end_s_agent_is_killed(
    policy_file: PolicyFile, tmp_path: Path, key: str
) -> None:
    """60 KB take 25 ms, of which a quarter of the buffer (10 ms) may lie ahead of the next."""
    with beside_others(), Rack(STAR.build()) as rack, ExitStack() as undo:
        found = undo.enter_context(agents(rack, slow(policy_file, tmp_path / "slow.ncc"), key))
        answers = Answers(rack, undo)
        began_s = time.monotonic()
        for thread in answers.begin(60_000, 60_000, 60_000):
            thread.join()
        starts_s = sorted(first_s - began_s for first_s in answers.first_s)
        assert 0 < starts_s[0] <= 4 * PERIOD_S + SLACK_S
        for gap_s, least_s in ((starts_s[1] - starts_s[0], 0.015), (starts_s[2] - starts_s[0], 0.041)):
            assert least_s - PERIOD_S <= gap_s <= least_s + 2 * PERIOD_S + SLACK_S
        time.sleep(0.3)  # the connections' next flows wait anew

        began_s = time.monotonic()
        reading = answers.begin(300_000, 400_000, 500_000)
        time.sleep(0.06)
        found[FRONT].process.kill()
        killed_s = time.monotonic()
        for thread in reading:
            thread.join()
        assert answers.first_s[0] < killed_s < answers.first_s[2]
        queue_s = 8 * BUFFER_BYTES / LINE_BPS
        # Told to begin 0.29 s after the first. Two periods of silence, one to the next decision, and the queue ahead.
        assert answers.first_s[2] - killed_s <= 3 * PERIOD_S + queue_s + SLACK_S
        assert all(answers.last_s)
        for host in rack.topology.hosts:
            if host != FRONT:
                assert found[host].end() == 0
                counted = found[host].events("ended")[0]["receivers"]
                assert counted["woken"] >= 2
                assert counted["held"] == 0
