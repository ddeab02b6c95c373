# SPDX-License-Identifier: BSD-3-Clause
"""The uplink: the kernel's counts at its port, and messages that reach agents."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux import namespaces
from ncc.host.__main__ import main
from ncc.host.peers import parse_agent, parse_one
from ncc.host.uplink import Port, PortState, UplinkSender
from tests.host.hosts import KEYS, MS
from tests.host.test_exchange import free_ports, opened, until
from tests.linux.spaces import say, spaces
from tests.support.linux import needs


def test_agents_hear_of_the_port() -> None:
    one, above = (f"127.0.0.1:{port}" for port in free_ports(2))
    with (
        closing(opened(one, uplink=above)) as agent,
        closing(UplinkSender(KEYS, parse_one(above, "uplink"), parse_agent(one))) as sending,
    ):
        now_ns = time.monotonic_ns()
        sending.send(1000, 5, now_ns)
        assert sending.counters["sent"] == 0  # of one count there is no rate
        sending.send(1000 + 125_000, 3000, now_ns + 1 * MS)
        until(lambda: bool(agent.inbox.uplink_ns[0]), agent)
        assert agent.inbox.uplink.tolist() == [(1e9, 3000.0)]
        sending.send(500, 0, now_ns + 2 * MS)  # the queue was set up anew
        assert sending.counters["sent"] == 1
        sending.send(500, 0, now_ns + 3 * MS)
        assert sending.counters == {"sent": 2, "send_errors": 0}


@pytest.fixture
def slow() -> Iterator[str]:
    """A namespace whose interface e0 (10.1.0.1) sends 8 kbit/s to a neighbour that takes anything."""
    with spaces(
        "above",
        lines=(
            "-n {0} link add e0 type veth peer name e1",
            *(f"-n {{0}} link set {end} addrgenmode none" for end in ("e0", "e1")),  # or IPv6 sends packets of its own
            *(f"-n {{0}} link set {end} up" for end in ("e0", "e1")),
            "-n {0} address add 10.1.0.1/24 dev e0",
            "-n {0} neighbour add 10.1.0.2 lladdr 02:00:00:00:00:02 dev e0",
        ),
    ) as (name,):
        yield name


def shaped(name: str) -> None:
    words = "qdisc add dev e0 root tbf rate 8kbit burst 1600 limit 100000"
    subprocess.run(["tc", "-n", name, *words.split()], check=True, capture_output=True)


@needs("root", "net", "ip")
def test_a_port_is_what_the_kernel_counts(slow: str) -> None:
    with namespaces.inside(slow):
        with pytest.raises(ConfigError, match="e0 has no queue that counts"):
            Port("e0")
        shaped(slow)
        sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        port = Port("e0")
    with closing(port), closing(sending):
        before = port.read()
        assert before.backlog_bytes == 0
        for _ in range(20):
            sending.sendto(bytes(1000), ("10.1.0.2", 9))
        after = port.read()
        sent, waiting = after.sent_bytes - before.sent_bytes, after.backlog_bytes
        assert sent + waiting == 20 * (1000 + 8 + 20 + 14)
        assert waiting >= 17 * 1042
        say("-n", slow, "link", "delete", "e0")
        with pytest.raises(DatapathError, match="the queue of e0 cannot be read: No such device; is the interface"):
            port.read()


@needs("root", "net", "ip")
def test_the_command_sends_the_state_of_a_port(slow: str, key: str) -> None:
    shaped(slow)
    with (
        namespaces.inside(slow),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        closing(opened("127.0.0.1:947", uplink="127.0.0.1:9472")) as agent,
    ):
        for _ in range(20):
            sending.sendto(bytes(1000), ("10.1.0.2", 9))
        words = ["uplink", "e0", "--listen", "127.0.0.1:9472", "--key", key, "--agents", "127.0.0.1"]
        assert main([*words, "--seconds", "1", "--period", "0.01"]) == 0
        agent.receive(time.monotonic_ns())
        assert agent.counters["received"] >= 1
        throughput_bps, queue_bytes = agent.inbox.uplink[0].tolist()
        assert queue_bytes > 10_000
        assert throughput_bps < 2e6


def test_the_command_refuses(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--listen", "127.0.0.1:9", "--agents", "127.0.0.1"]
    for arguments, said in (
        (["no-such-one", "--key", key], "there is no network interface 'no-such-one'"),
        (["lo", "--key", str(tmp_path / "none")], "cannot read the key file"),
        (["lo", "--key", key], "lo has no queue that counts (noqueue)"),
        (["lo", "--key", key, "--seconds", "0"], "--seconds must be `float` > 0"),
        (["lo", "--key", key, "--period", "1e-9"], "--period must be `float` >= 0.0001, got 1e-9"),
    ):
        assert main(["uplink", *arguments, *words]) == 2
        assert said in capsys.readouterr().err


class GoingPort:
    """A port whose queue somebody removes (`tc qdisc del`)."""

    def __init__(self, interface: str) -> None:
        self.interface, self.reads = interface, 0

    def read(self) -> PortState:
        self.reads += 1
        if self.reads > 2:
            raise DatapathError(f"{self.interface} has no queue that counts")
        return PortState(1000 * self.reads, 0)

    def close(self) -> None:
        pass


def test_a_port_whose_queue_goes_ends_it_with_a_reason(
    key: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ncc.host.uplink.Port", GoingPort)
    (port,) = free_ports(1)
    asked = ["lo", "--listen", f"127.0.0.1:{port}", "--agents", "127.0.0.2", "--key", key, "--seconds", "60"]
    assert main(["uplink", *asked]) == 1
    *lines, error = capfd.readouterr().err.splitlines()
    ended = json.loads(lines[-1])
    assert (ended["event"], ended["why"]) == ("ended", "lo has no queue that counts")
    assert ended["messages"]["sent"] == 1
    assert error == "error: lo has no queue that counts"
