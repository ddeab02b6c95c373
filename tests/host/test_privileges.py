# SPDX-License-Identifier: BSD-3-Clause
"""An agent of a user who is not root: it runs with three capabilities, and keeps one once it has begun."""

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux import machine, namespaces
from ncc.envs.linux.check import CAPABILITIES
from ncc.host import privileges, run
from ncc.host.peers import PORT
from tests.host.agents import NETWORK, WITH_PARENT, AgentProcess, beside_others, sysctl
from tests.linux.spaces import spaces
from tests.linux.test_sources import of_nobody
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

NOBODY = 65534
SETTING = "tcp_congestion_control"
FOLDER = f'mount -t tmpfs -o uid={NOBODY},mode=755 none "$0" && install -o {NOBODY} -m 400 "$1" "$0/policy.ncc"'
"""Makes a runtime directory as systemd does, with the policy file."""


def by_nobody(policy: Path) -> list[str]:
    """A command that runs another one with the user, the rights and the folder of the unit."""
    wanted = ",".join(f"+cap_{CAPABILITIES[name][0]}" for name in privileges.NEEDED)
    rights = [f"--inh-caps=-all,{wanted}", f"--ambient-caps=-all,{wanted}", f"--bounding-set=-all,{wanted}"]
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    folder = ["unshare", "--mount", "sh", "-c", f'{FOLDER} && shift && exec "$@"', str(machine.FOLDER), str(policy)]
    return [*folder, "setpriv", WITH_PARENT, *user, *rights]


@pytest.fixture
def host() -> Iterator[str]:
    machine.FOLDER.mkdir(exist_ok=True)
    with beside_others(), spaces("rights") as (name,):
        yield name


def status(path: Path) -> dict[str, str]:
    """Lines of a file like /proc/<pid>/status."""
    pairs = (line.split(":", 1) for line in path.read_text().splitlines())
    return {key: value.strip() for key, value in pairs}


def queue(name: str) -> str:
    """Queues of loopback in a namespace, as tc shows them."""
    asked = ["tc", "-n", name, "qdisc", "show", "dev", "lo"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def connect(name: str, congestion: str) -> None:
    """Make a connection in a namespace, send something, and close."""
    with namespaces.inside(name):
        listener, sender = socket.create_server(("127.0.0.1", 0)), socket.socket()
    with listener, sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        with receiver:
            sender.sendall(b"x" * 10_000)
            received = 0
            while received < 10_000:
                received += len(receiver.recv(65536))


@needs(*TRAFFIC, "everybody's python")
@pytest.mark.attack("4")
def test_an_agent_without_root_keeps_one_capability(host: str, policy_path: Path) -> None:
    by = by_nobody(policy_path)
    before = [sysctl(host, SETTING), queue(host)]
    words = [str(machine.FOLDER / "policy.ncc"), "--interface", "lo", *NETWORK, "--name", "ncc_test_u", "--default"]
    words += ["--metrics", str(machine.FOLDER / "ncc.prom"), "--log-s", "0.1", "--heartbeat-s", "5"]
    with AgentProcess(host, [*words, "--missed-frac", "1"], by) as agent:
        agent.wait_for("started")
        assert sysctl(host, SETTING) == "ncc_test_u"
        assert queue(host).startswith("qdisc htb 1:")
        assert eventually(lambda: bool(agent.events("report")))
        tasks = [status(task / "status") for task in Path(f"/proc/{agent.process.pid}/task").iterdir()]
        assert len(tasks) == 2, "one decides, one writes metrics"
        for task in tasks:
            assert set(task["Uid"].split()) == {str(NOBODY)}
            held = [int(task[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")]
            assert held == [1 << CAPABILITIES["CAP_NET_ADMIN"][0]] * 2 + [0, 0]
            assert task["NoNewPrivs"] == "1"
        for _ in range(20):
            connect(host, "ncc_test_u")
        assert eventually(lambda: any(line["connections"] == 0 for line in agent.events("report")[-2:]))
        assert agent.end() == 0
    assert [sysctl(host, SETTING), queue(host)] == before
    assert agent.wait_for("ended")["guard"]["suspensions"] == 0


@needs("setpriv")
@pytest.mark.attack("n1")
def test_no_user_can_take_an_agent_s_port_while_it_is_down(host: str) -> None:
    """The limit of a host would be gone for as long as that user has the port."""
    take = f"import socket; socket.socket(type=socket.SOCK_DGRAM).bind(('127.0.0.1', {PORT}))"
    by = ["ip", "netns", "exec", host, *of_nobody(), sys.executable, "-c", take]
    assert "PermissionError" in subprocess.run(by, capture_output=True, text=True, check=False).stderr


@needs(*TRAFFIC)
@pytest.mark.parametrize(
    ("realtime", "limit", "reason"),
    [(True, -1, ""), (True, 1 << 23, "RLIMIT_MEMLOCK is 8388608 bytes"), (False, -1, "")],
)
def test_the_unit_s_limits_keep_an_agent_in_memory(
    realtime: bool, limit: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page that decisions need is then ever read back from a disk; and other threads go before all but decisions."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))

    def locked() -> bool:
        own = status(Path("/proc/self/status"))
        return int(own["VmLck"].split()[0]) > 0.5 * int(own["VmSize"].split()[0])

    with ExitStack() as undo:
        assert run.schedule(argparse.Namespace(realtime=realtime), undo) == reason
        assert locked() == (realtime and not reason)
        with ThreadPoolExecutor(1, initializer=machine.go_second) as others:
            second = others.submit(lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)).result()
        assert second == ((os.SCHED_FIFO, machine.DECISIONS_PRIORITY - 1) if realtime else (os.SCHED_OTHER, 0))
    assert not locked()


NO_LOCK = ("prlimit", "--memlock=0", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock")
"""Beginning of a command that may not lock memory."""


@needs(*TRAFFIC)
def test_an_agent_that_may_not_lock_its_memory_says_so_and_goes_on(host: str, policy_path: Path) -> None:
    words = [str(policy_path), "--interface", "lo", *NETWORK, "--name", "ncc_test_m", "--log-s", "0.1", "--realtime"]
    with AgentProcess(host, words, NO_LOCK) as agent:
        said = agent.wait_for("memory")["said"]
        assert "decisions may wait for a disk: RLIMIT_MEMLOCK is 0 bytes; the unit has LimitMEMLOCK=infinity" in said
        agent.wait_for("report")
        assert agent.end() == 0
    assert len(agent.events("memory")) == 1


@needs("root", "setpriv")
def test_a_kernel_that_refuses_to_lock_memory_is_no_end() -> None:
    """Under an infinite limit it does so by a filter of system calls; here by a limit that is said to be infinite."""
    code = """import contextlib, resource
from ncc.envs.linux import machine
resource.getrlimit = lambda _: (-1, -1)
print(machine.stay_in_memory(contextlib.ExitStack()))"""
    ended = subprocess.run([*NO_LOCK, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "the kernel refuses mlockall: Operation not permitted\n"


def test_rights_that_another_thread_would_keep_are_not_given_up_in_vain() -> None:
    from threading import Event, Thread

    over = Event()
    thread = Thread(target=over.wait)
    thread.start()
    try:
        with pytest.raises(DatapathError, match="and each would keep its capabilities"):
            privileges.drop()
    finally:
        over.set()
        thread.join()
