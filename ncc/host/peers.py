# SPDX-License-Identifier: BSD-3-Clause
"""Hosts of a neighbourhood: their addresses and ids."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from ncc.core.errors import ConfigError

PORT = 9471
"""UDP port of agents where none is named."""
HOSTS_MOST = 256
"""Most hosts that one agent serves (layout.HOSTS_MAX), and that a neighbourhood has."""
_FORM = re.compile(r"([0-9.]+)(?::(\d{1,5}))?(?:\*(\d{1,4}))?", re.ASCII)


class Address(NamedTuple):
    """An IPv4 address in its text form, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Text form as in lists of peers."""
        return f"{self.host}:{self.port}"


class Peer(NamedTuple):
    """A host of the neighbourhood, and the agent that speaks for it."""

    id: int
    """64 bits: 16 say which of the agent's hosts it is, 32 the agent's address, 16 its port."""
    address: Address

    def __str__(self) -> str:
        """The address, and which of the agent's hosts it is unless it is the first."""
        return f"{self.address}#{which}" if (which := self.id >> 48) else str(self.address)


def peer_at(address: Address, which: int = 0) -> Peer:
    """The `which`-th host that the agent at an address speaks for."""
    return Peer(which << 48 | int(IPv4Address(address.host)) << 16 | address.port, address)


def parse_agent(text: str, what: str = "peer") -> tuple[Peer, ...]:
    """The hosts of one agent: ``10.0.0.2``, ``10.0.0.2:9471``, or ``10.0.0.2*16`` for 16 hosts."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"the {what} {text!r} must be ADDRESS, ADDRESS:PORT or ADDRESS:PORT*HOSTS, with a numerical IPv4 address, "
            "as in 10.0.0.2:9471"
        )
    port, hosts = int(found[2] or PORT), int(found[3] or 1)
    try:
        host = str(IPv4Address(found[1]))
    except ValueError:
        raise ConfigError(f"the {what} {text!r} has no valid IPv4 address; write four numbers") from None
    if not 1 <= port <= 65535:
        raise ConfigError(f"the {what} {text!r} has port {port}, and ports are 1 to 65535")
    if not 1 <= hosts <= HOSTS_MOST:
        raise ConfigError(f"the {what} {text!r} has {hosts} hosts, and an agent serves 1 to {HOSTS_MOST}")
    return tuple(peer_at(Address(host, port), which) for which in range(hosts))


def parse_one(text: str, what: str) -> Peer:
    """The one host at an address."""
    found = parse_agent(text, what)
    if len(found) > 1:
        raise ConfigError(f"the {what} {text!r} must be one, without *HOSTS")
    return found[0]


def parse_peers(texts: Sequence[str], own: Sequence[Peer]) -> tuple[Peer, ...]:
    """All hosts of the agents named, in their order; `own` hosts must not be among them."""
    peers = tuple(peer for text in texts for peer in parse_agent(text))
    seen = {peer.id: "this agent itself" for peer in own}
    for peer in peers:
        if (other := seen.get(peer.id)) is not None:
            raise ConfigError(f"the peer {peer} is {other}; name every other agent of the neighbourhood once")
        seen[peer.id] = "named twice"
    if len(peers) + len(own) > HOSTS_MOST:
        raise ConfigError(f"a neighbourhood has at most {HOSTS_MOST} hosts, got {len(peers) + len(own)}: name fewer")
    return peers


def rows_of(own: Sequence[Peer], peers: Sequence[Peer]) -> tuple[list[int], list[int]]:
    """Numbers of an agent's own hosts and of its peers among all, which every agent of a neighbourhood gives them."""
    places = {peer.id: row for row, peer in enumerate(sorted((*own, *peers), key=lambda p: (p.address, p.id)))}
    return [places[peer.id] for peer in own], [places[peer.id] for peer in peers]
