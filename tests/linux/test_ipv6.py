# SPDX-License-Identifier: BSD-3-Clause
"""Reports of connections over IPv6, and of those over IPv4 from sockets of IPv6."""

import socket
from contextlib import ExitStack

import pytest

from ncc.envs.linux import layout, machine, namespaces
from ncc.envs.linux.shim import Shim
from tests.linux.lab import FOR_EVER_S, reports
from tests.linux.spaces import spaces
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

CONTROLLER = "ncc_test_six"
OWN = {"10.7.0.1": 0, "fd00:7::1": 1}
"""Addresses of two hosts, by index."""
IPV4_HEADERS, IPV6_HEADERS = 52, 72
"""With TCP's timestamps."""

pytestmark = needs(*TRAFFIC)


@pytest.mark.parametrize(
    ("family", "own", "peer", "host", "header_bytes"),
    [
        (socket.AF_INET, "10.7.0.1", "10.7.0.9", 0, IPV4_HEADERS),
        (socket.AF_INET6, "fd00:7::1", "fd00:7::9", 1, IPV6_HEADERS),
        (socket.AF_INET6, "::ffff:10.7.0.1", "::ffff:10.7.0.9", 0, IPV4_HEADERS),
        (socket.AF_INET6, "fd00:7::9", "fd00:7::1", None, None),
    ],
    ids=["IPv4", "IPv6", "IPv4 by a socket of IPv6", "of no host"],
)
def test_a_connection_is_of_the_host_that_has_its_address(
    family: socket.AddressFamily, own: str, peer: str, host: int | None, header_bytes: int | None
) -> None:
    there = peer.removeprefix("::ffff:")
    kind = socket.AF_INET if there.count(".") else socket.AF_INET6
    addresses = ("10.7.0.1/32", "10.7.0.9/32", "fd00:7::1/128", "fd00:7::9/128")
    with ExitStack() as undo:
        lines = tuple(f"-n {{0}} address add {address} dev lo" for address in addresses)
        (space,) = undo.enter_context(spaces("six", lines=lines))
        undo.enter_context(namespaces.inside(space))
        shim = undo.enter_context(Shim("dctcp", timeout_s=FOR_EVER_S, name=CONTROLLER))
        for address, index in OWN.items():
            shim.add_host(index, address, machine.namespace_cookie())
        listener = undo.enter_context(socket.create_server((there, 0), family=kind))
        sender = undo.enter_context(socket.socket(family))
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROLLER.encode())
        sender.bind((own, 0))
        sender.connect((peer, listener.getsockname()[1]))
        with listener.accept()[0] as receiver:
            sender.sendall(bytes(5000))
            got = 0
            while got < 5000:
                got += len(receiver.recv(5000))
            if host is None:
                assert shim.counters()["started"] == 0
                return
            assert eventually(lambda: shim.reports["delivered_bytes"].max() == 5000)
            (report,) = reports(shim)[1]
            assert (report["host"], report["header_bytes"]) == (host, header_bytes)
            assert report["peer"] == layout.address_bytes(there)
