# SPDX-License-Identifier: BSD-3-Clause
"""Sent and waiting bytes of a port, on a machine that is a router or in a namespace that acts as a switch."""

import os
import struct
from typing import NamedTuple

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.linux import netlink
from ncc.envs.linux.device import interface_index
from ncc.envs.linux.netlink import Answer, Route, attributes, request

_BASIC, _QUEUE = 1, 3
_NO_QUEUE = "noqueue"


class PortState(NamedTuple):
    """Counters of a port at one moment."""

    sent_bytes: int
    """Bytes sent since the queue was set up, with link-layer headers."""
    backlog_bytes: int
    """Bytes that wait in the queue, with link-layer headers."""


class Port:
    """The counters of a network device's queue (`tc -s qdisc show dev ...`): the root and everything below it.

    Reading takes one request to the kernel and no privileges.
    """

    def __init__(self, interface: str) -> None:
        """Find the device in the calling thread's namespace."""
        index = interface_index(interface)
        # Without NLM_F_ECHO the kernel does not answer; an ACK comes even without a queue.
        self._question = request(netlink.GET_QDISC, netlink.ECHO, index, parent=netlink.ROOT)
        self.interface = interface
        self._route = Route()
        try:
            self.read()
        except DatapathError as error:
            self.close()
            raise ConfigError(str(error)) from None

    def read(self) -> PortState:
        """Read the counters."""
        try:
            states = [_state(answer) for answer in self._route.ask(self._question)]
        except TimeoutError as error:
            raise DatapathError(f"the kernel does not tell the queue of {self.interface}: {error}") from None
        except OSError as error:
            raise DatapathError(
                f"the queue of {self.interface} cannot be read: {os.strerror(error.errno or 0)}; is the interface "
                "still there?"
            ) from None
        if not states or states[-1] is None:
            raise DatapathError(
                f"{self.interface} has no queue that counts (noqueue); name the port at which packets wait, or give it "
                f"a queue: tc qdisc add dev {self.interface} root ..."
            )
        return states[-1]

    def close(self) -> None:
        """Close the socket to the kernel; may be called twice."""
        self._route.close()


def _state(queue: Answer) -> PortState | None:
    stats = attributes(queue.attributes.get(netlink.STATS, memoryview(b"")))
    if queue.kind == _NO_QUEUE or _BASIC not in stats or _QUEUE not in stats:
        return None
    (sent,) = struct.unpack_from("=Q", stats[_BASIC])
    _, backlog = struct.unpack_from("=II", stats[_QUEUE])
    return PortState(sent, backlog)
