# SPDX-License-Identifier: BSD-3-Clause
"""Third-party clients of a host that sends all it may: how long each waits, with an agent and without one."""

import http.client
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.linux import namespaces
from tests.host.agents import WITH_PARENT, AgentProcess, beside_others
from tests.host.lines import LINK_BPS, OWN, PEER
from tests.linux.lines import Line
from tests.linux.spaces import spaces
from tests.support.attacks import MARKER
from tests.support.linux import CLIENTS, TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

FRAC, CONNECTIONS = 0.2, 16
"""Limit as a fraction of the line's rate, and full connections beside the clients."""
BUFFER_BYTES = 500_000
"""Buffer of each port of the switch: 40 ms at the line's rate."""
FEW, MANY, PAUSE_S = 30, 300, 0.01
"""Questions of each client in the suite and in `make attack`, and the time between an answer and the next question."""
QUANTILES = (0.5, 0.99)
MOST_RATIO = 2.0
"""Most by which the 99th percentile of name look-ups may grow."""
OPTIONS = f"""--interface line0 --link-rate {LINK_BPS:g} --uplink-rate {LINK_BPS:g} --outside-training --floor {FRAC}
    --max-rate-frac {FRAC} --default --realtime --missed-frac 1 --heartbeat-s 1 --log-s 0.2 --name ncc_test_t""".split()
Waits = tuple[float, float]
"""Median and 99th percentile of the time until an answer, in ms."""

pytestmark = [needs(*TRAFFIC, *CLIENTS), pytest.mark.attack("n27", "n41c")]


@contextmanager
def behind_a_switch() -> Iterator[Line]:
    """A host and a peer that run Reno, with lines of `LINK_BPS` to a switch that has one queue at each port."""
    lines = [
        f"link add line{i} netns {{{i}}} type veth peer name port{i} netns {{2}}\n"
        f"-n {{{i}}} address add {address}/24 dev line{i}\n-n {{{i}}} link set line{i} gso_max_segs 1 up\n"
        f"-n {{2}} link set port{i} master bridge up"
        for i, address in enumerate((OWN, PEER))
    ]
    commands = ["-n {2} link add bridge type bridge", "-n {2} link set bridge up", *"\n".join(lines).split("\n")]
    with beside_others(), spaces("thost", "tpeer", "tswitch", lines=tuple(commands)) as (host, peer, switch):
        for port in ("port0", "port1"):
            bucket = f"qdisc add dev {port} root tbf rate {LINK_BPS:.0f}bit burst 20kb limit {BUFFER_BYTES}"
            subprocess.run(["tc", "-n", switch, *bucket.split()], check=True)
        for name in (host, peer):
            with namespaces.inside(name):
                Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text("reno")
        yield Line(host, peer, "line0", PEER)


@contextmanager
def running(namespace: str, *command: object, ready: Callable[[], object] = lambda: True, log: Path) -> Iterator[None]:
    """A program in a namespace, ended with the block."""
    words = ["setpriv", WITH_PARENT, "ip", "netns", "exec", namespace, *map(str, command)]
    with log.open("ab") as said, subprocess.Popen(words, stdout=said, stderr=said) as process:
        try:
            assert eventually(lambda: ready() or process.poll() is not None), log.read_text()[-1000:]
            assert process.poll() is None, log.read_text()[-1000:]
            yield
        finally:
            process.kill()


def opened(namespace: str, port: int, to: str = OWN) -> socket.socket:
    """A connection from a namespace."""
    with namespaces.inside(namespace):
        return socket.create_connection((to, port), timeout=PATIENCE_S)


def listens(namespace: str, port: int, to: str = OWN) -> Callable[[], bool]:
    def answers() -> bool:
        with suppress(OSError), opened(namespace, port, to):
            return True
        return False

    return answers


def timed(ask: Callable[[], object], times: int) -> Waits:
    waits_ns = []
    for _ in range(times):
        began_ns = time.monotonic_ns()
        ask()
        waits_ns.append(time.monotonic_ns() - began_ns)
        time.sleep(PAUSE_S)
    p50, p99 = np.quantile(waits_ns, QUANTILES) / 1e6
    return float(p50), float(p99)


def names(on: Line, folder: Path, times: int) -> Waits:
    """Names from dnsmasq; a question without an answer within `PATIENCE_S` fails."""
    question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\4name\4test\0" + struct.pack(">2H", 1, 1)
    words = f"dnsmasq -k --conf-file=/dev/null --no-resolv --no-hosts --address=/test/{OWN} --user=root --pid-file"
    with running(on.host, *words.split(), log=folder / "dnsmasq"), on.opened(socket.SOCK_DGRAM, there=True) as asking:
        asking.connect((OWN, 53))
        asking.settimeout(0.2)

        def asked() -> bool:
            with suppress(OSError):
                asking.send(question)
                return bool(asking.recv(512))
            return False

        assert eventually(asked)
        asking.settimeout(PATIENCE_S)
        return timed(lambda: (asking.send(question), asking.recv(512)), times)


def pages(on: Line, folder: Path, times: int) -> Waits:
    """Pages of 1 KB from nginx, beside a download that its client pauses."""
    (folder / "small").write_bytes(bytes(1000))
    (folder / "large").write_bytes(bytes(20_000_000))
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; keepalive_requests 100000; server {{ listen {OWN}:80; root {folder}; }} }}"
    )
    with (
        running(on.host, "nginx", "-c", folder / "nginx.conf", ready=listens(on.peer, 80), log=folder / "nginx"),
        opened(on.peer, 80) as paused,
        opened(on.peer, 80) as live,
    ):
        paused.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        client = http.client.HTTPConnection(OWN)
        client.sock = live

        def ask() -> None:
            client.request("GET", "/small")
            assert len(client.getresponse().read()) == 1000

        return timed(ask, times)


def values(on: Line, folder: Path, times: int) -> Waits:
    """Values of 100 bytes from redis, as redis-benchmark measures it."""
    server = f"redis-server --bind {OWN} --protected-mode no --dir {folder}"
    with running(on.host, *server.split(), "--save", "", ready=listens(on.peer, 6379), log=folder / "redis"):
        by = ["ip", "netns", "exec", on.peer, *f"redis-benchmark -h {OWN} -t get -c 1 -d 100 --csv -n {times}".split()]
        header, row = subprocess.run(by, capture_output=True, text=True, check=True).stdout.splitlines()
    found = dict(zip(header.split(","), row.split(","), strict=True))
    p50, p99 = (float(found[f'"p{q}_latency_ms"'].strip('"')) for q in (50, 99))
    return p50, p99


def keystrokes(on: Line, folder: Path, times: int) -> Waits:
    """Keys by ssh, until the terminal of the host shows them."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    daemon = [
        shutil.which("sshd"),
        "-D",
        "-e",
        "-f",
        "/dev/null",
        "-h",
        folder / "host",
        "-o",
        f"ListenAddress={OWN}:22",
    ]
    for option in ("PermitRootLogin=yes", "StrictModes=no", f"AuthorizedKeysFile={folder}/user.pub", "UsePAM=no"):
        daemon += ["-o", option]
    shell = (
        f"ssh -tt -F none -i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@{OWN} cat"
    )
    with running(on.host, *daemon, ready=listens(on.peer, 22), log=folder / "sshd"):
        by = ["setpriv", WITH_PARENT, "ip", "netns", "exec", on.peer, *shell.split()]
        with subprocess.Popen(by, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as typing:
            assert typing.stdin is not None
            assert typing.stdout is not None
            keys, screen = typing.stdin.fileno(), typing.stdout.fileno()

            def press() -> None:
                os.write(keys, b"x")
                assert os.read(screen, 100) == b"x"

            press()
            waits = timed(press, times)
            typing.kill()
    return waits


KINDS = {"DNS": names, "nginx, 1 KB": pages, "redis GET": values, "ssh, a key": keystrokes}


def served(on: Line, folder: Path, times: int) -> dict[str, Waits]:
    """Waits of all clients beside full connections of iperf3."""
    folder.mkdir()
    full = ["iperf3", "-c", PEER, "-P", CONNECTIONS, "-t", 3600]
    with (
        running(on.peer, "iperf3", "-s", ready=listens(on.host, 5201, PEER), log=folder / "iperf3"),
        running(on.host, *full, log=folder / "full"),
    ):
        began = on.sent()[0]
        assert eventually(lambda: on.sent()[0] - began > 5_000_000)
        return {kind: client(on, folder, times) for kind, client in KINDS.items()}


def test_clients_are_served_beside_full_connections(
    policy_path: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a fifth of the line's rate, names come within twice the time that they take on a full line without it."""
    times = MANY if request.config.option.markexpr == MARKER else FEW
    with behind_a_switch() as on:
        without = served(on, tmp_path / "none", times)
        with AgentProcess(on.host, [str(policy_path), *OPTIONS]) as agent:
            agent.wait_for("report")
            beside = served(on, tmp_path / "agent", times)
            assert agent.end() == 0
    rows = [f"| {kind} | {' | '.join(f'{ms:.1f}' for ms in (*without[kind], *beside[kind]))} |" for kind in KINDS]
    head = [
        f"| beside {CONNECTIONS} full connections (ms) | no agent: p50 | p99 | agent: p50 | p99 |",
        "|---|---:|---:|---:|---:|",
    ]
    if times == MANY:
        with capsys.disabled():
            sys.stdout.write("\n".join(["", *head, *rows, ""]))
    assert beside["DNS"][1] <= MOST_RATIO * without["DNS"][1]
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0
