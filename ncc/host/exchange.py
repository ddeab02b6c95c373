# SPDX-License-Identifier: BSD-3-Clause
"""Exchange of messages with an agent's peers by UDP, and one for agents without peers. Sockets never block.

A filter in the kernel drops packets that no peer has sent.
"""

import ctypes
import errno
import os
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from ncc.core.errors import ConfigError, DatapathError
from ncc.host.keys import Keys
from ncc.host.listener import Inbox, Listener
from ncc.host.message import MAGIC, SIZE, TO_ONE, VERSION, Kind, Sender, StateArray
from ncc.host.peers import Address, Peer

SPARE = 16
"""Number of messages that `receive` takes in addition to two of each sender and kind."""
DROPS_EVERY = 256
"""Number of calls of `receive` after which the kernel's count of dropped messages is read again."""
_MEMORY, _DROPS, _FIELDS = 55, 8, struct.Struct("9I")
"""Socket option SO_MEMINFO, the place of its field SK_MEMINFO_DROPS (linux/sock_diag.h), and the layout of all."""
MESSAGE_MEMORY_BYTES = 2304
"""Most kernel memory that a waiting message takes: a descriptor and half a page."""
DSCP = 48
"""Class of the messages: network control (RFC 4594 section 3.1)."""
_SO_ATTACH_FILTER = 26
"""Socket option of asm-generic/socket.h."""
_LENGTH, _BYTE, _HALF, _WORD, _EQUAL, _JUMP, _RETURN = 0x80, 0x30, 0x28, 0x20, 0x15, 0x05, 0x06
"""Instructions of classic BPF (linux/bpf_common.h): four loads, a jump on equality, a jump, and the verdict."""
_STORE, _RECALL = 0x02, 0x60
"""Instructions that store into a word of the filter's memory, and load it."""
_UDP_BYTES, _IP_AT, _SOURCE_AT, _SOURCE_AT_IPV6 = 8, 0xFFF0_0000, 12, 8
"""Size of the UDP header, with which a filter's data begins; offset of IP's header, SKF_NET_OFF; and offsets in it of
the source address."""
UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
"""File with the least port that takes no right."""
REMEDIES = {
    errno.EADDRINUSE: "the port is in use; is an agent running already? Stop what has it, or name another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that `ip address` shows",
    errno.EACCES: "a port below 1024 takes CAP_NET_BIND_SERVICE, which root and the unit have at a start: restart the "
    "agent, or name another port",
    errno.EAFNOSUPPORT: "this process may not use addresses of this version of IP: let RestrictAddressFamilies of the "
    "unit have AF_INET6 (systemctl edit ncc-host), or give the kernel IPv6",
    errno.ENOMEM: "the kernel has no room for the filter of so many peers: raise net.core.optmem_max",
}


class Exchange:
    """An exchange of messages with peers. This base class has no peers and no sender of the uplink's state.

    Attributes:
        inbox: newest messages of the peers, one peer per row, and of the uplink.
        counters: numbers of messages sent and received, and of those dropped, by reason.
    """

    alone = True
    """True if there is nobody to send to."""

    def __init__(self) -> None:
        self.inbox = Inbox()

    @property
    def counters(self) -> dict[str, int]:
        """Numbers of messages sent and received, and of those dropped, by reason."""
        return self.inbox.counters

    @property
    def n_peers(self) -> int:
        """Number of hosts of the neighbourhood that are not local."""
        return len(self.inbox.states)

    def send(self, own: StateArray, now_ns: int) -> None:
        """Send all peers the states [k] of the local hosts as they are at `now_ns`, one message per host.

        This never blocks, and a message that cannot be sent is counted.
        """

    def tell(self, kind: Kind, row: int, values: bytes, now_ns: int) -> None:
        """Send one peer a message of the kind `FLOWS` or `GRANT`.

        This never blocks, and a message that cannot be sent is counted.

        Args:
            kind: kind of the message.
            row: row of the peer in the inbox.
            values: a row of this kind as bytes.
            now_ns: monotonic time of the values.
        """

    def receive(self, now_ns: int) -> None:
        """Move the messages that have arrived into the inbox, up to a fixed number and without waiting."""

    def prioritise(self, priority: int) -> None:
        """Give messages this SO_PRIORITY from now on; one above 6 takes CAP_NET_ADMIN or CAP_NET_RAW."""

    def close(self) -> None:
        """Close the sockets; may be called twice."""


class UdpExchange(Exchange):
    """An `Exchange` by UDP.

    A call of `receive` takes at most two messages of each sender and kind, and `SPARE` more. If more are waiting, it
    counts one ``flood``. The rest waits in the socket's buffer, which has room for about twice as many messages. A
    message that waits too long counts as ``late``, one that the kernel drops as ``kernel_drops``. The kernel also
    drops, and counts there, packets without the size and version of a message, and packets from an address or port
    that is no sender's.

    Args:
        keys: keys of the messages.
        own: hosts of this agent. Their address must be one of this machine that the peers can reach.
        peers: hosts of the other agents.
        uplink: sender of the uplink's state; None: nobody sends it.
        kind: kind of the messages that `send` sends. With `UPLINK`, nothing is accepted from the peers.
        late_ns: age in ns above which an arriving message is dropped.
        buffer_bytes: as in `Listener`.
        before: exchange of the same host that ends now. Its socket goes on, and so do the messages that wait there.

    Raises:
        ConfigError: an address that cannot be used, or a peer without a key.
        DatapathError: a port in use.
    """

    alone = False

    def __init__(
        self,
        keys: Keys,
        own: Sequence[Peer],
        peers: Sequence[Peer] = (),
        *,
        uplink: Peer | None = None,
        kind: Kind = Kind.STATE,
        late_ns: int,
        buffer_bytes: int | None = None,
        before: "UdpExchange | None" = None,
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
        if before is None:
            self._socket = opened(own[0].address, self._most, senders)
        else:
            self._socket = before._socket
            take_from(self._socket, self._most, senders)

    def send(self, own: StateArray, now_ns: int) -> None:
        sending_ns, errors = max(time.monotonic_ns(), now_ns), 0
        batches = self._sender.messages(self._kind, [row.tobytes() for row in own], now_ns, sending_ns)
        send = self._socket.sendto
        for address, messages in zip(self._to, batches, strict=True):
            for message in messages:
                try:
                    send(message, address)
                except OSError:  # a full buffer, no route, a firewall: the next period sends anew
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
        """Take at most `_most` messages from the socket; return False if more may be waiting."""
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


def opened(address: Address, messages: int, senders: Sequence[Address]) -> socket.socket:
    """Open a socket at an address of this machine for messages of `senders`, with room for about twice `messages`.

    Raises:
        ConfigError: the address cannot be used.
        DatapathError: the port is in use, perhaps not for long.
    """
    family, level, option = (
        (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
        if address.is_ipv6
        else (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS)
    )
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        with ExitStack() as undo:
            made = undo.enter_context(socket.socket(family, kind))
            take_from(made, messages, senders)  # before it is bound and receives anything
            made.setsockopt(level, option, DSCP << 2)
            made.bind(address)
            undo.pop_all()
    except OSError as error:
        raise refused(address, error.errno or 0) from None
    return made


def refused(address: Address, number: int) -> ConfigError | DatapathError:
    """Return the error of an address whose port cannot be opened, by the kernel's error number."""
    kind = DatapathError if number == errno.EADDRINUSE else ConfigError
    return kind(f"cannot listen on {address}: {REMEDIES.get(number, os.strerror(number))}")


def take_from(opened: socket.socket, messages: int, senders: Sequence[Address]) -> None:
    """Let a socket take messages of `senders` only from now on, with room for about twice `messages`."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, messages * MESSAGE_MEMORY_BYTES)
    program = b"".join(struct.pack("=HBBI", *instruction) for instruction in _filter(senders))
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)


def _filter(senders: Sequence[Address]) -> list[tuple[int, int, int, int]]:
    """Return a BPF program that passes messages of this version from these senders, and drops all other packets.

    It checks size, version, address and port. Dropped packets take no room in the socket and no time of the agent. A
    packet whose source address is forged passes.
    """
    drop, take = (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFF_FFFF)
    sources = {sender: ip_address(sender.host).packed for sender in senders}
    program = []
    for load, wanted in (
        ((_LENGTH, 0, 0, 0), _UDP_BYTES + SIZE),
        ((_WORD, 0, 0, _UDP_BYTES), int.from_bytes(MAGIC, "big")),
        ((_BYTE, 0, 0, _UDP_BYTES + len(MAGIC)), VERSION),
    ):
        program += [load, (_EQUAL, 1, 0, wanted), drop]
    words = range(max(map(len, sources.values()), default=0) // 4)
    for word in words:
        at = _IP_AT + (_SOURCE_AT if len(words) == 1 else _SOURCE_AT_IPV6) + 4 * word
        program += [(_WORD, 0, 0, at), (_STORE, 0, 0, word)]
    for port in dict.fromkeys(sender.port for sender in senders):
        of_port = []
        for source in (source for sender, source in sources.items() if sender.port == port):
            for word in reversed(words):  # the last differs most often
                wanted = int.from_bytes(source[4 * word : 4 * word + 4], "big")
                of_port += [(_RECALL, 0, 0, word), (_EQUAL, 0, 2 * word + 1, wanted)]
            of_port.append(take)
        program += [(_HALF, 0, 0, 0), (_EQUAL, 1, 0, port), (_JUMP, 0, 0, len(of_port) + 1), *of_port, drop]
    return [*program, drop]
