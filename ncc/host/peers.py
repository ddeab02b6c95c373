# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of a neighbourhood: their addresses and ids."""

import re
from collections.abc import Sequence
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from ncc.core.errors import ConfigError

PORT = 947
"""UDP port of agents whose address names no port. It is below 1024, so that no user takes it while an agent is down."""
HOSTS_MOST = 256
"""Largest number of hosts that one agent serves (layout.HOSTS_MAX), and that a neighbourhood has."""
BROADCAST = IPv4Address("255.255.255.255")
_FORM = re.compile(r"([0-9.]+|\[[^\]]+\])(?::(\d{1,5}))?(?:\*(\d{1,4}))?", re.ASCII)


def numerical(text: str) -> str:
    """Return an address of IPv4 or IPv6 in its usual text form.

    Raises:
        ConfigError: the text is none, or one that does not name a single host, such as a multicast address.
    """
    try:
        parsed = ip_address(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no valid address: write four numbers of IPv4, as 10.0.0.2, or one of IPv6, as fd00::2"
        ) from None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        raise ConfigError(f"{text} is an address of IPv4: write {parsed.ipv4_mapped}")
    if isinstance(parsed, IPv6Address) and (parsed.is_link_local or parsed.scope_id):
        raise ConfigError(
            f"{text!r} is an address of one link only, which other links have too: name one without a scope that all "
            "hosts can reach, as in fd00::/8"
        )
    if parsed.is_multicast or parsed.is_unspecified or parsed == BROADCAST:
        raise ConfigError(f"{text!r} is not the address of one host: name one that `ip address` shows on that host")
    return str(parsed)


class Address(NamedTuple):
    """An address of IPv4 or IPv6 in its usual text form (`numerical`), and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as lists of peers have it."""
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"

    @property
    def is_ipv6(self) -> bool:
        """True for an address of IPv6."""
        return ":" in self.host


class Peer(NamedTuple):
    """A host of the neighbourhood, and the address of its agent."""

    id: int
    """64 bits: 16 for the number among the agent's hosts, 32 for the agent's address, 16 for its port.

    An address of IPv6 is represented by the first 32 bits of its SHA-256.
    """
    address: Address

    def __str__(self) -> str:
        """Return the address, and the number among the agent's hosts if that is not 0."""
        return f"{self.address}#{which}" if (which := self.id >> 48) else str(self.address)


def peer_at(address: Address, which: int = 0) -> Peer:
    """Return host number `which` of the agent at an address."""
    packed = ip_address(address.host).packed
    short = sha256(packed).digest()[:4] if address.is_ipv6 else packed
    return Peer(which << 48 | int.from_bytes(short, "big") << 16 | address.port, address)


def parse_agent(text: str, what: str = "peer") -> tuple[Peer, ...]:
    """Parse the hosts of one agent: ``10.0.0.2``, ``10.0.0.2:947``, ``[fd00::2]:947``, or ``10.0.0.2*16`` for 16 hosts.

    Args:
        text: text to parse.
        what: name of its purpose, for the error.

    Raises:
        ConfigError: the text has another form, or its address, port or number of hosts is not possible.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"the {what} {text!r} must be ADDRESS, ADDRESS:PORT or ADDRESS:PORT*HOSTS, with a numerical address, as in "
            "10.0.0.2:947 or [fd00::2]:947"
        )
    port, hosts = int(match[2] or PORT), int(match[3] or 1)
    try:
        host = numerical(match[1].strip("[]"))
    except ConfigError as error:
        raise ConfigError(f"the {what} {text!r}: {error}") from None
    if not 1 <= port <= 65535:
        raise ConfigError(f"the {what} {text!r} has port {port}, and ports are 1 to 65535")
    if not 1 <= hosts <= HOSTS_MOST:
        raise ConfigError(f"the {what} {text!r} has {hosts} hosts, and an agent serves 1 to {HOSTS_MOST}")
    return tuple(peer_at(Address(host, port), which) for which in range(hosts))


def parse_one(text: str, what: str) -> Peer:
    """Parse the address of an agent with a single host; arguments and errors as in `parse_agent`."""
    hosts = parse_agent(text, what)
    if len(hosts) > 1:
        raise ConfigError(f"the {what} {text!r} must be one, without *HOSTS")
    return hosts[0]


def check_version(hosts: Sequence[Peer]) -> None:
    """Raise `ConfigError` if addresses are of both versions of IP: the one socket of an agent reaches those of one."""
    if unlike := [host for host in hosts if host.address.is_ipv6 != hosts[0].address.is_ipv6]:
        raise ConfigError(
            f"{hosts[0]} and {unlike[0]} cannot reach each other: all hosts of a neighbourhood, this one included "
            "(--address), need addresses of one version of IP"
        )


def parse_peers(text: str, own: Sequence[Peer]) -> tuple[Peer, ...]:
    """Parse a list of agents, separated by commas, and return all their hosts in this order.

    Raises:
        ConfigError: an entry is invalid, a host is named twice or is one of `own`, two have the same id, there are too
            many hosts, or their addresses are of both versions of IP.
    """
    peers = tuple(peer for entry in text.split(",") if entry.strip() for peer in parse_agent(entry))
    seen = {peer.id: peer for peer in own}
    for peer in peers:
        if (other := seen.get(peer.id)) is not None:
            raise ConfigError(
                f"the peer {peer} has the same id as {other}: give one of them another address"
                if other.address != peer.address
                else f"the peer {peer} is {'this agent itself' if other in own else 'named twice'}; name every other "
                "agent of the neighbourhood once"
            )
        seen[peer.id] = peer
    check_version((*own, *peers))
    if len(peers) + len(own) > HOSTS_MOST:
        raise ConfigError(f"a neighbourhood has at most {HOSTS_MOST} hosts, got {len(peers) + len(own)}: name fewer")
    return peers


def rows_of(own: Sequence[Peer], peers: Sequence[Peer]) -> tuple[list[int], list[int]]:
    """Return the rows of an agent's own hosts, and of its peers, in arrays over the hosts of the neighbourhood.

    Hosts are sorted by address, so all agents of a neighbourhood give a host the same row.
    """
    places = {peer.id: row for row, peer in enumerate(sorted((*own, *peers), key=lambda p: (p.address, p.id)))}
    return [places[peer.id] for peer in own], [places[peer.id] for peer in peers]
