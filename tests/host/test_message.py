# SPDX-License-Identifier: BSD-3-Clause
"""Messages: their size and layout stay as they are, and any change of any of them is noticed."""

import hmac
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.host.message import (
    HELLO_VALUES,
    MAC_AT,
    SIZE,
    STATE_VALUES,
    UPPER_VALUES,
    VALUES_AT,
    Key,
    Kind,
    encode,
    read_key,
)
from ncc.host.state import STATE, UPPER
from tests.host.hosts import KEY, hear, listener, sender_of, states, told


def test_values_are_packed_as_arrays_hold_them() -> None:
    assert (STATE_VALUES.size, UPPER_VALUES.size) == (STATE.itemsize, UPPER.itemsize) == (44, 16)
    assert max(STATE.itemsize, UPPER.itemsize, HELLO_VALUES.size) <= MAC_AT - VALUES_AT
    row = np.array([(1.0, 2.0, 3.0, 4, 5.0, np.inf)], dtype=STATE)
    assert row.tobytes() == STATE_VALUES.pack(1, 2, 3, 4, 5, float("inf"))


def test_a_message_is_what_its_documentation_says() -> None:
    secret = b"0123456789abcdef"
    message = encode(
        Key(secret), Kind.UPPER, struct.pack("<dd", 5e9, 3000.0),
        sender=1, session_ns=2, sequence=3, sent_ns=4, clock_ns=5, age_ns=6,
    )  # fmt: skip
    signed = struct.pack("<4sBBHQQQQQQdd", b"nccx", 1, 2, 0, 1, 2, 3, 4, 5, 6, 5e9, 3000.0) + bytes(32)
    assert message == signed + hmac.digest(secret, signed, "sha256")[:16]
    assert len(message) == SIZE == 120


@given(st.integers(0, SIZE * 8 - 1))
def test_no_bit_of_a_message_can_be_changed(bit: int) -> None:
    heard = listener()
    message = bytearray(told(sender_of(), states(queued_bytes=7), 1)[0])
    message[bit // 8] ^= 1 << bit % 8
    became = hear(heard, [bytes(message)], 1)
    assert len(became) == 1
    assert "received" not in became
    assert not heard.heard["queued_bytes"].any()
    assert not heard.heard_ns.any()


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
        (0o604, 32, r"may be used by others than its owner \(mode 0604\)"),
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
