# SPDX-License-Identifier: BSD-3-Clause
"""A sender that tells the queue of its host how long each message is, before it writes it."""

import contextlib
import socket
import struct


def send_message(to: socket.socket, message: bytes) -> None:
    """Send a message, whose size puts it in its place in the order from the first packet on."""
    with contextlib.suppress(OSError):  # where no such queue is
        to.setsockopt(0x4E43, 1, struct.pack("=I", len(message)))  # see ncc/envs/linux/order_program.py
    to.sendall(message)
