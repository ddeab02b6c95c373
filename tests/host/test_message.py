# SPDX-License-Identifier: BSD-3-Clause
"""Messages: their size and layout stay as they are, and any change of any of them is noticed."""

import hmac
import struct

import numpy as np

from ncc.host.keys import Key, Keys
from ncc.host.message import FLOWS, GRANT, SIZE, STATE, Kind, Sender
from tests.host.hosts import NEAR


def test_a_message_is_what_its_documentation_says() -> None:
    secret = b"0123456789abcdef"
    row = np.array([(1.0, 2.0, 3.0, 4, 5.0, np.inf, 1)], dtype=STATE)
    values = {
        Kind.STATE: struct.pack("<dddIddI", 1, 2, 3, 4, 5, np.inf, 1),
        Kind.UPLINK: struct.pack("<dd", 5e9, 3000.0),
    }
    assert row.tobytes() == values[Kind.STATE]
    sender = Sender(Keys.shared(Key(secret, 0x1234)), NEAR[:1], 1, wall_ns=lambda: 2)
    for kind, packed in values.items():
        ((message,),) = sender.messages(kind, [packed], 3, 7)
        head = struct.pack("<4sBBHQQQQQQ", b"nccx", 2, kind, 0x1234, NEAR[0].id, 2, 1, 7 - 1, 2, 7 - 3)
        signed = head + packed + bytes(48 - len(packed))
        assert message == signed + hmac.digest(secret, signed, "sha256")[:16]
        assert len(message) == SIZE == 120


def test_a_message_to_one_host_is_what_its_documentation_says() -> None:
    secret = b"0123456789abcdef"
    rows = {
        Kind.FLOWS: (np.array([(7, 2, 9, 100.0, 40.0, 60.0)], FLOWS), struct.pack("<QIIddd", 7, 2, 9, 100, 40, 60)),
        Kind.GRANT: (
            np.array([(7, 3, 9, 100.0, -0.5, 4500.0, np.inf)], GRANT),
            struct.pack("<QIIdddd", 7, 3, 9, 100, -0.5, 4500, np.inf),
        ),
    }
    sender = Sender(Keys.shared(Key(secret, 5)), NEAR[:1], 1, wall_ns=lambda: 2)
    for kind, (row, packed) in rows.items():
        assert row.tobytes() == packed
        for sequence in (1, 2):
            message = sender.message_to(kind, 0, packed, 7)
            head = struct.pack("<4sBBHQQQQQQ", b"nccx", 2, kind, 5, NEAR[0].id, 2, sequence, 7 - 1, 2, 0)
            signed = head + packed + bytes(48 - len(packed))
            assert message == signed + hmac.digest(secret, signed, "sha256")[:16]
            assert len(message) == SIZE
