# SPDX-License-Identifier: BSD-3-Clause
"""Messages: their size and layout stay as they are, and any change of any of them is noticed."""

import hmac
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.host.message import SIZE, STATE, Key, Kind, Sender, read_key
from tests.host.hosts import KEY, NEAR


def test_a_message_is_what_its_documentation_says() -> None:
    secret = b"0123456789abcdef"
    row = np.array([(1.0, 2.0, 3.0, 4, 5.0, np.inf)], dtype=STATE)
    values = {Kind.STATE: struct.pack("<dddIdd", 1, 2, 3, 4, 5, np.inf), Kind.UPLINK: struct.pack("<dd", 5e9, 3000.0)}
    assert row.tobytes() == values[Kind.STATE]
    sender = Sender(Key(secret), NEAR[:1], 1, wall_ns=lambda: 2)
    for kind, packed in values.items():
        (message,) = sender.messages(kind, [packed], 3, 7)
        head = struct.pack("<4sBBHQQQQQQ", b"nccx", 1, kind, 0, NEAR[0].id, 2, 1, 7 - 1, 2, 7 - 3)
        signed = head + packed + bytes(48 - len(packed))
        assert message == signed + hmac.digest(secret, signed, "sha256")[:16]
        assert len(message) == SIZE == 120


@pytest.mark.parametrize("secret", [b"", b"fifteen bytes..", bytes(4097)])
def test_keys_have_a_size(secret: bytes) -> None:
    with pytest.raises(ConfigError, match=rf"16 to 4096 bytes, got {len(secret)}: make one with `openssl"):
        Key(secret)


def test_a_key_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"sixteen bytes or more\n")
    path.chmod(0o600)
    assert read_key(path).sign(b"x") == KEY.sign(b"x")


@pytest.mark.parametrize(
    ("mode", "size", "said"),
    [
        (0o640, 32, r"may be used by others than its owner \(mode 0640\): run chmod 600"),
        (0o602, 32, r"may be used by others than its owner \(mode 0602\)"),
        (0o600, 15, "cannot be used: a key must have 16 to 4096 bytes, got 15"),
        (0o600, 5000, "cannot be used: a key must have 16 to 4096 bytes, got 4098"),
    ],
)
def test_files_that_are_no_keys(tmp_path: Path, mode: int, size: int, said: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x" * size)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=said):
        read_key(path)


def test_a_key_is_in_a_plain_file_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; make one with"):
        read_key(tmp_path / "none")
    with pytest.raises(ConfigError, match="is not a plain file"):
        read_key(tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(ConfigError, match="is not a plain file"):  # and does not wait for a writer
        read_key(fifo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x" * 32)
    path.chmod(0o600)
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to user 12345, who could change it"):
        read_key(path)
