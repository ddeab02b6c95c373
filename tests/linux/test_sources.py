# SPDX-License-Identifier: BSD-3-Clause
"""Connections that count: those of a host only; and no user can keep other users' connections out."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ncc.envs.linux import layout, machine, namespaces
from ncc.envs.linux.shim import Shim
from tests.linux.lab import FOR_EVER_S, reports
from tests.linux.spaces import spaces
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

ADDRESS = "10.7.0.1"
NOBODY, CONTROLLER = 65534, "ncc_test_o"
PYTHON = "/usr/bin/python3"
"""An interpreter that any user may run, as this one may not be."""
MANY = 4300
"""More connections than there are slots."""

CONNECTIONS = """
import resource, socket, sys
address, n, waits, controller = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "waits", sys.argv[4]
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * n + 50,) * 2)
listener, ends = socket.create_server((address, 0), backlog=16), []
for i in range(n):
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
    sender.bind((address, 0))
    sender.connect(listener.getsockname())
    ends += [sender, listener.accept()[0]]
    sender.setblocking(False)
    sender.send(bytes(10**7) if waits else b"x")
print("there", flush=True)
sys.stdin.read()
"""
"""Makes connections to itself: idle after a byte, or waiting for a receiver that takes nothing."""

pytestmark = [
    needs(*TRAFFIC),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed (package util-linux)"),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"{PYTHON} is not installed (package python3)"),
]


def of_nobody(*command: str, user: int = NOBODY) -> list[str]:
    """A command for a user without rights."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]


@contextmanager
def connections(
    of: list[str], n: int, *, address: str = ADDRESS, waiting: bool = False, controller: str = CONTROLLER
) -> Iterator[None]:
    """Connections made by a separate process, which the command `of` starts."""
    words = [PYTHON, "-c", CONNECTIONS, address, str(n), "waits" if waiting else "idles", controller]
    process = subprocess.Popen([*of, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def host() -> Iterator[str]:
    """A namespace with an address."""
    with spaces("sources", lines=(f"-n {{0}} address add {ADDRESS}/32 dev lo",)) as (name,):
        yield name


@pytest.fixture
def shim(host: str) -> Iterator[Shim]:
    """Add a host for connections from an address of a namespace."""
    with namespaces.inside(host):
        cookie = machine.namespace_cookie()
    slots = layout.FLOWS_MAX // 2
    with Shim("dctcp", timeout_s=FOR_EVER_S, name=CONTROLLER, user_slots=slots) as shim:
        shim.add_host(0, ADDRESS, cookie)
        shim.beat()
        yield shim


def busy(shim: Shim) -> int:
    """Number of the host's connections with data."""
    return int(shim.hosts[0]["flows"])


@needs("users' namespaces")
@pytest.mark.attack("2")
def test_the_same_address_in_another_namespace_takes_no_share(host: str, shim: Shim) -> None:
    """Any user may make a namespace of his own, and there an address of his choice."""
    own = f'ip link set lo up && ip address add {ADDRESS}/32 dev lo && exec "$0" "$@"'
    attacker = of_nobody("unshare", "--user", "--map-root-user", "--net", "sh", "-c", own)
    inside = ["ip", "netns", "exec", host]
    with connections(inside, 1, waiting=True):
        assert eventually(lambda: busy(shim) == 1)
        with connections(attacker, 20, waiting=True):
            assert busy(shim) == 1
            assert shim.counters()["started"] == 1
        with connections(inside, 20, waiting=True):
            assert eventually(lambda: busy(shim) == 21)


@pytest.mark.parametrize("address", ["127.0.0.1", ADDRESS])
@pytest.mark.attack("3")
def test_no_user_leaves_another_s_connections_without_a_report(host: str, shim: Shim, address: str) -> None:
    """Connections of no host take no slot; those of a user take half of all at most."""
    inside = ["ip", "netns", "exec", host]
    with connections([*inside, *of_nobody()], MANY, address=address):
        counters = shim.counters()
        of_host = MANY if address == ADDRESS else 0
        refused = max(0, of_host - layout.FLOWS_MAX // 2)
        assert (counters["started"], counters["unreported"], counters["over_quota"]) == (of_host, refused, refused)
        with connections(inside, 1):
            assert eventually(lambda: shim.counters()["started"] == of_host + 1)
            assert shim.counters()["unreported"] == refused
            assert len(reports(shim)[0]) == of_host - refused + 1
    assert eventually(lambda: shim.counters()["finished"] == of_host + 1)
    reports(shim)  # frees the slots
    with connections([*inside, *of_nobody()], 1):
        assert eventually(lambda: len(reports(shim)[0]) == 1), "a user's slots come back"
    assert shim.counters()["unreported"] == refused
