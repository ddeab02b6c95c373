# SPDX-License-Identifier: BSD-3-Clause
"""The exchange of hosts' states with peers by UDP, or with nobody. Sockets never block and buffer little."""

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Sequence
from ipaddress import IPv4Address

from ncc.core.errors import ConfigError
from ncc.host.keys import Keys
from ncc.host.listener import Inbox, Listener
from ncc.host.message import MAGIC, SIZE, TO_ONE, VERSION, Kind, Sender, StateArray
from ncc.host.peers import Address, Peer

SPARE = 16
"""Messages that `receive` takes beyond two of each sender and kind."""
DROPS_EVERY = 256
"""Calls of `receive` between two readings of the kernel's count of dropped messages."""
MESSAGE_MEMORY_BYTES = 2304
"""Kernel memory that a waiting message takes at most: a descriptor and half a page."""
DSCP = 48
"""Network control (RFC 4594 section 3.1)."""
_MEMORY, _DROPS, _FIELDS = 55, 8, struct.Struct("9I")
"""SO_MEMINFO, and the field SK_MEMINFO_DROPS (linux/sock_diag.h)."""
_SO_ATTACH_FILTER = 26
"""asm-generic/socket.h."""
_LENGTH, _BYTE, _HALF, _WORD, _EQUAL, _JUMP, _RETURN = 0x80, 0x30, 0x28, 0x20, 0x15, 0x05, 0x06
"""Instructions of classic BPF (linux/bpf_common.h): loads, a jump on equality, a jump, and the verdict."""
_UDP_BYTES, _SOURCE_AT = 8, 0xFFF0_0000 + 12
"""Size of the UDP header, where a filter's data begins, and place of IP's source address (SKF_NET_OFF)."""
_REMEDIES = {
    errno.EADDRINUSE: "the port is in use; is an agent running already? Stop it, or name another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
    errno.EACCES: "this needs more rights; name a port of 1024 or above",
}


class Exchange:
    """An exchange of hosts' states with peers. This base class has no peers and no sender of the uplink's state.

    Attributes:
        inbox: newest states of the peers, in a fixed order, and of the uplink.
        counters: numbers of messages sent, received, and dropped by reason.
    """

    alone = True
    """True if there is nobody to send to."""

    def __init__(self) -> None:
        self.inbox = Inbox()

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the inbox and of sending."""
        return self.inbox.counters

    @property
    def n_peers(self) -> int:
        """Number of hosts of the neighbourhood that are not local."""
        return len(self.inbox.states)

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the state [k] of the local hosts as it is at `now_ns`: one message per host and period.

        It never blocks, and a message that cannot be sent is counted.
        """

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        """Send one peer (a row of the inbox) a row of `FLOWS` or `GRANT`, as it is at `now_ns`.

        It never blocks, and a message that cannot be sent is counted.
        """

    def receive(self, now_ns: int) -> None:
        """Take in the messages that have come, without waiting and up to a fixed number."""

    def prioritise(self, priority: int) -> None:
        """Send with this SO_PRIORITY from now on; above 6 it takes CAP_NET_ADMIN or CAP_NET_RAW."""

    def close(self) -> None:
        """Give the sockets back; may be called twice."""


class UdpExchange(Exchange):
    """An `Exchange` by UDP.

    A call of `receive` takes at most two messages of each sender and kind, and `SPARE` more. If more are waiting, it
    counts one ``flood``. The rest waits in a kernel buffer for about twice that number, until it is ``late`` or the
    kernel drops it (``kernel_drops``). The kernel also drops, and counts there, packets without the size and version of
    a message, and packets from an address or port that is no sender's.

    Args:
        keys: keys of the messages.
        own: hosts of this agent; the address is one of this machine that its peers use.
        peers: hosts of the other agents.
        uplink: sender of the uplink's state, if there is one.
        kind: kind of the messages that `send` sends; of `UPLINK`, the peers send nothing.
        late_ns: age above which an arriving state is dropped.
        buffer_bytes: as in `Listener`.

    Raises:
        ConfigError: an address that cannot be used, a port in use, or a peer without a key.
    """

    alone = False

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer] = (),
        uplink: Peer | None = None,
        *,
        kind: Kind = Kind.STATE,
        late_ns: int,
        buffer_bytes: int | None = None,
    ) -> None:
        self._to = list(dict.fromkeys(peer.address for peer in peers))
        self._place = [self._to.index(peer.address) for peer in peers]
        state_peers = peers if kind == Kind.STATE else ()
        senders = [peer.address for peer in (*state_peers, *([uplink] if uplink else []))]
        to = [address.host for address in self._to]
        self._kind, self._sender = kind, Sender(keys, own, time.monotonic_ns(), to=to)
        self.inbox = self._listener = Listener(
            keys, own, state_peers, uplink, late_ns=late_ns, buffer_bytes=buffer_bytes
        )
        self.counters.update(dict.fromkeys(("sent", "send_errors", "flood", "receive_errors", "kernel_drops"), 0))
        kinds = 1 if buffer_bytes is None else 1 + len(TO_ONE)
        self._most = 2 * (kinds * self.n_peers + 1) + SPARE
        self._buffer = memoryview(bytearray(SIZE + 1))
        self._calls = 0
        self._socket = _opened(own[0].address, self._most, senders)

    def send(self, own: StateArray, now_ns: int) -> None:
        sending_ns, errors = max(time.monotonic_ns(), now_ns), 0
        batches = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, sending_ns)
        send = self._socket.sendto
        for address, messages in zip(self._to, batches, strict=True):
            for message in messages:
                try:
                    send(message, address)
                except OSError:  # a full buffer, no route, a firewall: the next period tries again
                    errors += 1
        self.counters["sent"] += len(self._to) * len(own) - errors
        self.counters["send_errors"] += errors

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        place = self._place[row]
        message = self._sender.message_to(kind, place, values, max(time.monotonic_ns(), now_ns))
        try:
            self._socket.sendto(message, self._to[place])
        except OSError:  # as in `send`; the message is repeated later
            self.counters["send_errors"] += 1
        else:
            self.counters["sent"] += 1

    def receive(self, now_ns: int) -> None:
        """Receive as in `Exchange`; a message counts as received when it is read."""
        drained = self._drain()
        self.counters["flood"] += not drained
        self._calls += 1
        if self._calls % DROPS_EVERY == 0 or not drained:
            self.counters["kernel_drops"] = self.kernel_drops()

    def _drain(self) -> bool:
        """Take at most `_most` messages; return False if there may be more."""
        buffer, receive, take, clock_ns = self._buffer, self._socket.recv_into, self._listener.take, time.monotonic_ns
        for _ in range(self._most):
            try:
                size = receive(buffer)
            except BlockingIOError:
                return True
            except OSError:
                self.counters["receive_errors"] += 1
                return True
            take(buffer[:size], clock_ns())
        return False

    def kernel_drops(self) -> int:
        """Return the number of messages that the kernel has dropped, by the filter or for lack of room."""
        fields: tuple[int, ...] = _FIELDS.unpack(self._socket.getsockopt(socket.SOL_SOCKET, _MEMORY, _FIELDS.size))
        return fields[_DROPS]

    def prioritise(self, priority: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)

    def close(self) -> None:
        self._socket.close()


def _opened(address: Address, messages: int, senders: Sequence[Address]) -> socket.socket:
    """Open a socket at an address of this machine for messages of `senders`, with room for about twice `messages`."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * MESSAGE_MEMORY_BYTES)
        program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(senders))
        code = ctypes.create_string_buffer(program)
        filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)  # before it is bound and receives anything
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, DSCP << 2)
        opened.bind(address)
    except OSError as error:
        opened.close()
        number = error.errno or 0
        raise ConfigError(f"cannot listen on {address}: {_REMEDIES.get(number, os.strerror(number))}") from None
    return opened


def _filter(senders: Sequence[Address]) -> list[tuple[int, int, int, int]]:
    """Return a program that takes packets of our size and version from these addresses and ports, and drops all others.

    Dropped packets take no room in the socket and no time of the agent. A packet with a forged source passes.
    """
    drop, take = (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFF_FFFF)
    program = []
    for load, wanted in (
        ((_LENGTH, 0, 0, 0), _UDP_BYTES + SIZE),
        ((_WORD, 0, 0, _UDP_BYTES), int.from_bytes(MAGIC, "big")),
        ((_BYTE, 0, 0, _UDP_BYTES + len(MAGIC)), VERSION),
    ):
        program += [load, (_EQUAL, 1, 0, wanted), drop]
    for port in dict.fromkeys(address.port for address in senders):
        hosts = [int(IPv4Address(host)) for host in dict.fromkeys(one.host for one in senders if one.port == port)]
        of_port = [(_WORD, 0, 0, _SOURCE_AT)]
        for host in hosts:
            of_port += [(_EQUAL, 0, 1, host), take]
        program += [(_HALF, 0, 0, 0), (_EQUAL, 1, 0, port), (_JUMP, 0, 0, len(of_port) + 1), *of_port, drop]
    return [*program, drop]
