# SPDX-License-Identifier: BSD-3-Clause
"""What tells hosts of the port that they share ends when there is nothing more to be told of, and says why."""

import json
from pathlib import Path

import pytest

from ncc.core.errors import DatapathError
from ncc.envs.linux.port import PortState
from ncc.host.__main__ import main
from tests.deployed.test_exchange import free_ports


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
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("0123456789abcdef0123456789abcdef")
    monkeypatch.setattr("ncc.host.upper.Port", GoingPort)
    (port,) = free_ports(1)
    asked = ["lo", "--listen", f"127.0.0.1:{port}", "--agents", "127.0.0.2", "--key", str(key), "--seconds", "60"]
    assert main(["upper", *asked]) == 1
    *lines, error = capfd.readouterr().err.splitlines()
    ended = json.loads(lines[-1])
    assert (ended["event"], ended["why"]) == ("ended", "lo has no queue that counts")
    assert ended["messages"]["sent"] == 1
    assert error == "error: lo has no queue that counts"
