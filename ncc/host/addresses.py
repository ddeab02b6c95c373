# SPDX-License-Identifier: BSD-3-Clause
"""The local hosts of an agent: their interfaces and addresses, checked."""

import argparse
import errno
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from pathlib import Path

import psutil

from ncc.core.errors import ConfigError
from ncc.envs.linux import namespaces
from ncc.envs.linux.device import interface_index, occupied
from ncc.envs.linux.machine import namespace_cookie
from ncc.host.exchange import REMEDIES
from ncc.host.peers import numerical

ADDRESSES = Path("/proc/thread-self/net/if_inet6")
"""File with the addresses of IPv6 of the calling thread's network namespace: number, index, length of the prefix, scope
and flags in hexadecimal, and interface."""
PASSING = 0x01 | 0x08 | 0x20 | 0x40
"""IFA_F_TEMPORARY, IFA_F_DADFAILED, IFA_F_DEPRECATED and IFA_F_TENTATIVE (linux/if_addr.h)."""
Source = tuple[str, int]
"""Local end of connections: an address, and the cookie (a number) of the network namespace that has it."""


def local_hosts(options: argparse.Namespace, *, ipv6: bool = False) -> tuple[list[str], list[tuple[Source, ...]]]:
    """Find the addresses of the local hosts.

    Args:
        options: options of ``run``; `interface`, `address`, `netns` and `dry_run` are read.
        ipv6: True if other agents have addresses of IPv6. Then the host's address is the one of this version that
            lasts; else it is the interface's first of IPv4.

    Returns:
        [k] address of each host, and [k] local ends of its measured connections.

    Raises:
        ConfigError: an address or an interface cannot be used, their numbers differ, or several addresses could be a
            host's.
    """
    interfaces: list[str] = options.interface
    named: list[str] = options.netns or []
    host_addresses = [
        tuple(sorted(dict.fromkeys(_addresses(name)), key=lambda address: (":" in address) != ipv6))
        for name in interfaces
    ]
    for name in () if options.dry_run else interfaces:
        if queue := occupied(name):
            raise ConfigError(
                f"the interface {name} has a queue that somebody set up ({queue}): remove it (tc qdisc del dev {name} "
                "root), or take another interface"
            )
    if options.address:
        if len(options.address) != len(interfaces):
            raise ConfigError(
                f"{len(interfaces)} interfaces and {len(options.address)} addresses were named: each host has one of "
                "either"
            )
        host_addresses = [(numerical(address),) for address in options.address]
    elif lacking := [name for name, own in zip(interfaces, host_addresses, strict=True) if not own]:
        raise ConfigError(f"the interface {lacking[0]} has no address: give it one, or name the host's, --address")
    elif ipv6:
        host_addresses = [_lasting_first(name, own) for name, own in zip(interfaces, host_addresses, strict=True)]
    if named and (not options.address or len(named) not in (1, len(host_addresses))):
        raise ConfigError("--netns is of an --address: name one for all addresses, or one for each in turn")
    spaces = named * len(host_addresses) if len(named) == 1 else named or [""] * len(host_addresses)
    sources = []
    for own, name in zip(host_addresses, spaces, strict=True):
        if name:
            with namespaces.inside(name):
                cookie = _checked(own[0], f"in {name}")
        else:
            cookie = _checked(own[0], "here")
        sources.append(tuple((address, cookie) for address in own))
    every = [source for own in sources for source in own]
    if twice := [address for address, cookie in every if every.count((address, cookie)) > 1]:
        raise ConfigError(
            f"each host needs an address of its own, and {twice[0]} is that of two: say --address of each"
        )
    return [own[0] for own in host_addresses], sources


def _checked(address: str, where: str) -> int:
    """Check that the calling thread's network namespace has an address, and return the namespace's cookie."""
    if not _begins_here(address):
        raise ConfigError(
            f"no connection begins at {address} {where}: name one that `ip address` shows there, or by --netns the "
            "network namespace that has it"
        )
    return namespace_cookie()


def _addresses(interface: str) -> Iterator[str]:
    """Return the addresses of an interface of the calling thread's network namespace, without those of a link only."""
    interface_index(interface)
    entries = (
        one for one in psutil.net_if_addrs().get(interface, ()) if one.family in (socket.AF_INET, socket.AF_INET6)
    )
    return (one.address for one in entries if "%" not in one.address)  # it has the name of a link


def _lasting_first(interface: str, addresses: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of an interface, beginning with the one of IPv6 by which other agents can know the host.

    The kernel's order does not tell it: newer addresses come first, such as temporary ones.
    """
    ipv6 = lasting = [address for address in addresses if ":" in address]
    if len(ipv6) > 1:
        lines = [line.split() for line in ADDRESSES.read_text().splitlines()]
        passing = {str(IPv6Address(bytes.fromhex(line[0]))) for line in lines if int(line[4], 16) & PASSING}
        lasting = [address for address in ipv6 if address not in passing]
        if len(lasting) != 1:
            raise ConfigError(
                f"the interface {interface} has several addresses of IPv6 ({', '.join(lasting or ipv6)}), and other "
                "agents know this host by one: name it, --address"
            )
    return tuple(dict.fromkeys((*lasting, *addresses)))


def _begins_here(address: str) -> bool:
    """Return True if connections of this namespace may begin at an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            raise ConfigError(f"no connection can begin at {address}: {REMEDIES[error.errno]}") from None
        return False
    return True
