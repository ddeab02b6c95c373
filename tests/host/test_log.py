# SPDX-License-Identifier: BSD-3-Clause
"""The log: a line of JSON per event, at a limited rate, never a reason to end; and notices to systemd."""

import fcntl
import io
import json
import os
import select
import socket
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.core.units import NS_PER_S
from ncc.host.log import BURST_LINES, Log, NonBlockingWriter, Notifier


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_events_are_lines_of_json() -> None:
    stream = io.BytesIO()
    log = Log(stream.write)
    log.warning("peer_silent", peer="10.0.0.2\n:1", age_s=0.5, path=Path("x"))
    (line,) = lines(stream)
    assert line.pop("time")[19:20] == "."
    assert line == {
        "level": "warning", "event": "peer_silent", "peer": "10.0.0.2\n:1", "age_s": 0.5, "path": "x",
    }  # fmt: skip


def test_whatever_is_said_can_be_written() -> None:
    stream = io.BytesIO()
    Log(stream.write).error("x", limit=np.float64(2.5), inf=float("inf"), nan=np.nan, array=np.zeros(2), made=object)
    (line,) = lines(stream)
    assert line["inf"] is None
    assert line["nan"] is None


def test_an_event_that_never_ends_is_said_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now_s = io.BytesIO(), 0.0
    monkeypatch.setattr("ncc.host.log.time.monotonic", lambda: now_s)
    log = Log(stream.write)
    for i in range(5000):
        now_s = i / 1000
        log.info("again")
        if i == 4000:
            log.info("another")
    said = [line for line in lines(stream) if line["event"] == "again"]
    assert BURST_LINES + 4 <= len(said) <= BURST_LINES + 5
    assert len(said) + sum(line.get("left_out", 0) for line in said) >= 4000
    assert [line["event"] for line in lines(stream)].count("another") == 1


def test_a_line_that_cannot_be_written_is_counted() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    log = Log(partial(os.write, full))
    log.error("x")
    os.close(full)
    log.error("y")
    assert log.lost == 2


def test_a_log_that_nobody_reads_is_not_waited_for() -> None:
    reading, writing = os.pipe()
    capacity = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 2 * select.PIPE_BUF)
    write = NonBlockingWriter(writing)
    log = Log(write)
    long = b"y" * (2 * capacity) + b"\n"
    with pytest.raises(BlockingIOError):
        write(long)  # of which there is room for a part
    log.info("no room")
    assert log.lost == 1
    torn = os.read(reading, 2 * capacity)
    assert long.startswith(torn)
    assert len(torn) > 0
    log.info("room again", what="z" * 5000)  # more than a pipe takes whole
    first, second = os.read(reading, 2 * capacity).splitlines()
    assert first == b""
    assert json.loads(second)["event"] == "room again"
    assert not fcntl.fcntl(writing, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(reading)
    log.info("nobody")
    assert log.lost == 2
    os.close(writing)


def listening(where: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    opened.bind(where)
    opened.setblocking(False)
    return opened


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, abstract: bool) -> None:
    where = f"\0ncc-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with listening(where) as manager:
        notifier = Notifier({"NOTIFY_SOCKET": where.replace("\0", "@"), "WATCHDOG_USEC": "1000000"})
        assert notifier.watchdog_ns == NS_PER_S
        notifier.ready("serving\n10 hosts")
        for now_ns in range(0, 2 * NS_PER_S, NS_PER_S // 100):
            notifier.alive(now_ns)
        notifier.stopping("SIGTERM")
        told = [manager.recv(4096) for _ in range(10)]
        assert told[0] == b"READY=1\nSTATUS=serving 10 hosts"
        assert told[1:9] == [b"WATCHDOG=1"] * 8  # four in each interval
        assert told[9:] == [b"STOPPING=1\nSTATUS=SIGTERM"]
        notifier.close()
        notifier.close()
        notifier.ready("again")
        with pytest.raises(BlockingIOError):
            manager.recv(4096)


def test_nobody_is_told_who_did_not_ask(tmp_path: Path) -> None:
    notifier = Notifier({})
    notifier.ready("x")
    notifier.alive(1)
    assert notifier.watchdog_ns == 0
    gone = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    gone.ready("x")
    with listening(str(tmp_path / "for another")):
        other = Notifier({"NOTIFY_SOCKET": str(tmp_path / "for another"), "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"})
        assert other.watchdog_ns == 0
