# SPDX-License-Identifier: BSD-3-Clause
"""A sender that tells the queue of its host the size of each message before it writes the message."""

import contextlib
import socket
import struct


def send_message(to: socket.socket, message: bytes) -> None:
    """Send a message after its size, so that the queue can order it by the whole size from its first packet on."""
    with contextlib.suppress(OSError):  # the host has no such queue
        to.setsockopt(0x4E43, 1, struct.pack("=I", len(message)))  # see ncc/envs/linux/order_program.py
    to.sendall(message)
