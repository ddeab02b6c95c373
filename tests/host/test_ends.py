# SPDX-License-Identifier: BSD-3-Clause
"""Agents whose log nobody reads or whose interface vanishes; and the choice of an agent's connections."""

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ncc.envs.linux import namespaces
from tests.host.agents import NETWORK, ROOT, AgentProcess, beside_others, restored, sysctl
from tests.linux.spaces import spaces
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, alive, eventually

ADDRESSES = ["10.9.0.1", "10.9.0.2"]
OPTIONS = [*NETWORK, "--name", "ncc_test_e", "--default"]
SETTING = "tcp_congestion_control"


@contextmanager
def namespace() -> Iterator[str]:
    """An agent on an interface with two addresses."""
    addresses = (f"-n {{0}} addr add {address}/24 dev ends0" for address in ADDRESSES)
    with spaces(
        "ends", lines=("-n {0} link add ends0 type veth peer name ends1", "-n {0} link set ends0 up", *addresses)
    ) as (name,):
        yield name


@needs(*TRAFFIC)
def test_all_addresses_of_an_interface_are_limited_and_an_agent_whose_interface_goes_says_so(policy_path: Path) -> None:
    with beside_others(), namespace() as name:
        before = sysctl(name, SETTING)
        with AgentProcess(name, [str(policy_path), "--interface", "ends0", *OPTIONS, "--log-s", "0.1"]) as agent:
            assert agent.wait_for("started")["addresses"] == [ADDRESSES]
            with namespaces.inside(name):
                listener, sender = socket.create_server(("127.0.0.1", 0)), socket.socket()
            with listener, sender:
                sender.bind((ADDRESSES[1], 0))
                sender.connect(listener.getsockname())
                receiver, _ = listener.accept()
                with receiver:
                    sender.sendall(b"x" * 10_000)
                    assert eventually(lambda: any(line.get("connections") for line in agent.events("report")))
            subprocess.run(["ip", "-n", name, "link", "delete", "ends0"], check=True, capture_output=True)
            assert agent.ended() == 1
        assert sysctl(name, SETTING) == before
    ended = agent.wait_for("ended")
    assert ended["level"] == "error"
    assert "ends0" in ended["why"]
    assert ended["periods"] > 0
    assert "".join(agent.rest) == f"error: {ended['why']}\n"


@needs(*TRAFFIC)
def test_an_agent_whose_log_nobody_reads_ends_as_it_is_told(policy_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, bytes(fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, select.PIPE_BUF)))
    run = [sys.executable, "-m", "ncc.host", "run", str(policy_path), "--interface", "lo"]
    with beside_others(), namespace() as name:
        before = sysctl(name, SETTING)
        agent = subprocess.Popen(["ip", "netns", "exec", name, *run, *OPTIONS], cwd=ROOT, stderr=writing)
        try:
            assert eventually(lambda: sysctl(name, SETTING) == "ncc_test_e")
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 0
        finally:
            agent.kill()
            agent.wait()
            os.close(reading)
            os.close(writing)
        assert sysctl(name, SETTING) == before


@needs(*TRAFFIC)
def test_an_agent_of_a_test_ends_with_it_however_that_ends(policy_path: Path) -> None:
    code = (
        "import sys; from tests.host.agents import AgentProcess; agent = AgentProcess(sys.argv[1], sys.argv[2:])\n"
        "agent.wait_for('started'); print(agent.process.pid, flush=True); agent.ended()"
    )
    words = [str(policy_path), "--interface", "lo", *NETWORK, "--name", "ncc_test_c"]
    with beside_others(), namespace() as name:
        test = subprocess.Popen([sys.executable, "-c", code, name, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        with test:
            assert test.stdout is not None
            pid = int(test.stdout.readline())
            assert alive(pid)
            test.kill()
        assert eventually(lambda: not alive(pid))
        assert restored(name)[0] == 0


def test_descriptors_of_closed_streams_are_no_file_s(tmp_path: Path) -> None:
    """Otherwise a line for stderr goes into the first file that gets its number."""
    code = (
        "import os; from pathlib import Path; from ncc.host.__main__ import main\n"
        "try: main(['--help'])\n"
        "except SystemExit:\n"
        "    Path(os.environ['SAID']).write_text(' '.join(os.readlink(f'/proc/self/fd/{n}') for n in range(3)))"
    )
    said = tmp_path / "said"
    closing = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    subprocess.run(closing, cwd=ROOT, env={**os.environ, "SAID": str(said)}, check=True)
    assert said.read_text().split() == ["/dev/null"] * 3
