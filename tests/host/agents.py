# SPDX-License-Identifier: BSD-3-Clause
"""``ncc host run`` as a process of its own, in a network namespace of a rack."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, Self

from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.host.__main__ import main
from tests.linux.lines import sent_by
from tests.linux.patience import exclusively
from tests.linux.rates import Count, counted
from tests.support.processes import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
NETWORK = ["--link-rate", "1e8", "--uplink-rate", "1e8", "--outside-training"]
"""Options of a network of 100 Mbit/s."""


WITH_PARENT = "--pdeathsig=KILL"
"""Option of setpriv: a command ends with its parent, however that ends. A change of the user forgets it."""


class AgentProcess:
    """A running agent, which ends with this process; its log is read as it is written."""

    def __init__(self, namespace: str, arguments: Sequence[str], by: Sequence[str] = ()) -> None:
        """Start the agent, by the command `by` if given."""
        command = ["setpriv", WITH_PARENT, "ip", "netns", "exec", namespace, *by]
        command += [sys.executable, "-m", "ncc.host", "run", *arguments]
        self.lines: list[dict[str, Any]] = []
        self.rest: list[str] = []
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.lines.append(json.loads(line))
            else:
                self.rest.append(line)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Lines of one event."""
        return [line for line in self.lines if line["event"] == name]

    def wait_for(self, name: str) -> dict[str, Any]:
        """The first line of that event."""
        eventually(lambda: self.events(name) or self.process.poll() is not None)
        said = "".join(self.rest) or self.lines
        assert self.events(name), f"no {name}: {said}"
        return self.events(name)[0]

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; return its exit status."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait until it ends; return its exit status."""
        status = self.process.wait(PATIENCE_S)
        self._reader.join()
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def free_interface(rack: Rack, host: int) -> str:
    """Interface of a rack's host, without the rack's queue: an agent sets up its own."""
    name = rack.interface(host)
    subprocess.run(["tc", "-n", rack.namespace(host), "qdisc", "del", "dev", name, "root"], check=True)
    return name


def arguments(rack: Rack, host: int, policy: Path, *more: str, most_frac: float) -> list[str]:
    """Options of an agent on a host of the rack, with a limit as a share of its link of 100 Mbit/s."""
    return [
        str(policy),
        *("--interface", free_interface(rack, host), "--name", f"ncc_test_{host}"),
        *NETWORK,
        "--uplink-buffer",
        "150000",
        "--max-rate-frac",
        str(most_frac),
        "--log-s",
        "0.2",
        "--realtime",
        "--missed-frac",
        "1",
        *more,
    ]


def leaving(rack: Rack, host: int) -> Callable[[], Count]:
    """IP packets that leave a host of a rack, including its agent's messages."""
    name = rack.interface(host)
    return lambda: counted(lambda: sent_by(rack.namespace(host), name)[0])


def busy(agent: AgentProcess) -> list[dict[str, Any]]:
    """Reports of an agent whose host had something to send."""
    reports = [report for report in agent.events("report") if report.get("connections")]
    return [report for report in reports if report["queued_bytes"][0] > 0]


def limited_to(agent: AgentProcess) -> list[float | None]:
    """Limits in an agent's last report; None: no limit."""
    reports = agent.events("report")
    return reports[-1].get("limits_bps", []) if reports else []


def received_messages(metrics: Path) -> int:
    """Messages that an agent has received, by its metrics."""
    (line,) = re.findall(r'^ncc_messages_total\{.*="received"\} (\S+)$', metrics.read_text(), re.MULTILINE)
    return int(float(line))


def restored(namespace: str) -> tuple[int, str]:
    """Status and output of ``ncc host restore`` in a namespace."""
    said = io.StringIO()
    with namespaces.inside(namespace), redirect_stdout(said), redirect_stderr(said):
        status = main(["restore"])
    return status, said.getvalue()


def sysctl(namespace: str, name: str) -> str:
    """A setting of IPv4 in a namespace."""
    with namespaces.inside(namespace):
        return Path(f"/proc/sys/net/ipv4/{name}").read_text().strip()


def beside_others() -> AbstractContextManager[None]:
    """Share the machine with agents, without a run."""
    return exclusively(shared=True)


@contextmanager
def sending(
    rack: Rack, pairs: Sequence[tuple[int, int]], congestion: Sequence[str | None] | None = None, port: int = 5005
) -> Iterator[list[socket.socket]]:
    """Each pair's first host sends to the second without end; congestion None: the namespace's default control."""
    over, threads, senders, sockets = threading.Event(), [], [], []
    try:
        for i, (src, dst) in enumerate(pairs):
            with namespaces.inside(rack.namespace(dst)):
                listener = socket.socket()
            with namespaces.inside(rack.namespace(src)):
                sender = socket.socket()
            senders.append(sender)
            sockets += [listener, sender]
            listener.bind((rack.address(dst), port + i))
            listener.listen()
            if congestion is not None and (name := congestion[i]) is not None:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            sender.connect((rack.address(dst), port + i))
            sender.settimeout(1.0)
            receiver, _ = listener.accept()
            sockets.append(receiver)
            threads += [
                threading.Thread(target=_send, args=(sender, over)),
                threading.Thread(target=_receive, args=(receiver,)),
            ]
        for thread in threads:
            thread.start()
        yield senders
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for each in sockets:
            each.close()


def _send(sender: socket.socket, over: threading.Event) -> None:
    data = bytes(65536)
    while not over.is_set():
        with suppress(TimeoutError):
            sender.send(data)
    sender.shutdown(socket.SHUT_WR)


def _receive(receiver: socket.socket) -> None:
    buffer = bytearray(1 << 18)
    while receiver.recv_into(buffer):
        pass
