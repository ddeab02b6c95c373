# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of a neighbourhood: their addresses and ids."""

import hashlib
import re
import socket
import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from ncc.core.errors import ConfigError

PORT = 9471
"""UDP port of agents where none is named."""
HOSTS_MOST = 256
"""Most hosts that one agent serves (layout.HOSTS_MAX), and that a neighbourhood has."""
_FORM = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9.]+))(?::(?P<port>\d{1,5}))?(?:\*(?P<hosts>\d{1,4}))?")
_MAPPED = bytes(10) + b"\xff\xff"


class Address(NamedTuple):
    """An IP address in its text form, and a UDP port."""

    host: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        """Family of sockets that can send to it."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def packed(self) -> bytes:
        """16 bytes: an IPv4 address in its mapped form."""
        return IPv6Address(self.host if ":" in self.host else f"::ffff:{self.host}").packed

    def __str__(self) -> str:
        """Text form as in lists of peers."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Peer(NamedTuple):
    """A host of the neighbourhood, and the agent that speaks for it."""

    id: int
    """64 bits: 48 of the agent's address, and before them which of the agent's hosts it is."""
    address: Address

    def __str__(self) -> str:
        """The address, and which of the agent's hosts it is unless it is the first."""
        return f"{self.address}#{which}" if (which := self.id >> 48) else str(self.address)


def peer_at(address: Address, which: int = 0) -> Peer:
    """The `which`-th host that the agent at an address speaks for.

    An IPv4 address and port are in the id as they are, of IPv6 there are 48 bits of their SHA-256.
    """
    packed, port = address.packed(), struct.pack(">H", address.port)
    whole = packed[12:] + port if packed[:12] == _MAPPED else hashlib.sha256(packed + port).digest()[:6]
    return Peer(which << 48 | int.from_bytes(whole, "big"), address)


def address_from(packed: bytes, port: int) -> Address:
    """The address that `Address.packed` has packed."""
    address = IPv6Address(packed)
    return Address(str(address.ipv4_mapped or address), port)


def parse_agent(text: str, what: str = "peer") -> tuple[Peer, ...]:
    """The hosts of one agent: ``10.0.0.2``, ``10.0.0.2:9471``, ``[fd00::2]:9471``, or ``10.0.0.2*16`` for 16 hosts.

    Raises:
        ConfigError: it has another form; `what` names the thing.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"the {what} {text!r} must be ADDRESS, ADDRESS:PORT or ADDRESS:PORT*HOSTS, with a numerical address and "
            "IPv6 in brackets, as in 10.0.0.2:9471 or [fd00::2]:9471"
        )
    port, hosts = int(found["port"] or PORT), int(found["hosts"] or 1)
    try:
        host = str(IPv6Address(found["six"]) if found["six"] else IPv4Address(found["four"]))
    except ValueError:
        raise ConfigError(f"the {what} {text!r} has no valid IP address; write four numbers or IPv6 in []") from None
    if not 1 <= port <= 65535:
        raise ConfigError(f"the {what} {text!r} has port {port}, and ports are 1 to 65535")
    if not 1 <= hosts <= HOSTS_MOST:
        raise ConfigError(f"the {what} {text!r} has {hosts} hosts, and an agent serves 1 to {HOSTS_MOST}")
    return tuple(peer_at(Address(host, port), which) for which in range(hosts))


def parse_one(text: str, what: str) -> Peer:
    """The one host at an address.

    Raises:
        ConfigError: as `parse_agent`, or several hosts are named.
    """
    found = parse_agent(text, what)
    if len(found) > 1:
        raise ConfigError(f"the {what} {text!r} must be one, without *HOSTS")
    return found[0]


def parse_peers(texts: Sequence[str], own: Sequence[Peer]) -> tuple[Peer, ...]:
    """All hosts of the agents named, in their order; `own` hosts must not be among them.

    Raises:
        ConfigError: as `parse_agent`; or two are the same, one is the agent's own, or they are too many.
    """
    peers = tuple(peer for text in texts for peer in parse_agent(text))
    seen = {peer.id: "this agent itself" for peer in own}
    for peer in peers:
        if (other := seen.get(peer.id)) is not None:
            raise ConfigError(f"the peer {peer} is {other}; name every other agent of the neighbourhood once")
        seen[peer.id] = "named twice"
    if len(peers) + len(own) > HOSTS_MOST:
        raise ConfigError(f"a neighbourhood has at most {HOSTS_MOST} hosts, got {len(peers) + len(own)}: name fewer")
    return peers


def interface_index(interface: str) -> int:
    """The kernel's number of a network interface.

    Raises:
        ConfigError: there is no such interface.
    """
    try:
        return socket.if_nametoindex(interface)
    except (OSError, ValueError):  # ValueError: a name with a zero byte
        known = ", ".join(name for _, name in socket.if_nameindex())
        raise ConfigError(f"there is no network interface {interface!r}; this machine has {known}") from None
