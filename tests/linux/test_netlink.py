# SPDX-License-Identifier: BSD-3-Clause
"""Requests to the kernel, several of which are sent at once, and answers that nobody has read."""

import errno
from collections.abc import Iterator
from contextlib import closing
from unittest.mock import Mock

import pytest

from ncc.envs.linux import device, namespaces, netlink
from ncc.envs.linux.netlink import Route
from tests.linux.spaces import spaces
from tests.support.linux import TRAFFIC, needs

pytestmark = needs(*TRAFFIC)
ABSENT = 1 << 20
"""Index of no device."""


@pytest.fixture
def route() -> Iterator[Route]:
    with spaces("netlink") as (space,), namespaces.inside(space), closing(Route()) as made:
        yield made


def queues(route: Route) -> list[str]:
    """Kinds of the queues of loopback."""
    asked = netlink.request(netlink.GET_QDISC, netlink.DUMP, device.interface_index("lo"))
    return sorted(answer.kind for answer in route.ask(asked))


def test_all_requests_are_carried_out_and_the_first_refusal_is_raised(route: Route) -> None:
    lo = device.interface_index("lo")
    with pytest.raises(OSError) as refused:  # noqa: PT011 - its number is checked
        route.send(
            device.clsact(lo),
            device.qdisc(lo, "ncc-none", flags=netlink.REPLACE),
            device.qdisc(ABSENT, "pfifo", flags=netlink.REPLACE),
            device.htb(lo, device.ROOT, device.LIMIT, flags=netlink.REPLACE),
        )
    assert refused.value.errno == errno.ENOENT
    assert queues(route) == ["clsact", "htb"], "no refusal is left for the next request"
    route.send(device.qdisc(lo, "pfifo", flags=netlink.REPLACE))
    assert queues(route) == ["clsact", "pfifo"]


def test_an_answer_that_nobody_has_read_is_that_of_no_later_request(route: Route) -> None:
    """A call was interrupted between its request and the answer."""
    lo = device.interface_index("lo")
    absent = device.qdisc(ABSENT, "pfifo", flags=netlink.REPLACE)
    with pytest.MonkeyPatch.context() as interrupted:
        interrupted.setattr(route, "_socket", Mock(wraps=route._socket, recv=Mock(side_effect=KeyboardInterrupt)))
        for leaves in (absent, device.clsact(lo)):
            with pytest.raises(KeyboardInterrupt):
                route.send(leaves)
    assert queues(route) == ["clsact", "noqueue"]
    with pytest.raises(OSError, match=str(errno.ENODEV)):
        route.send(absent)
    route.send(device.qdisc(lo, "pfifo", flags=netlink.REPLACE))
    assert queues(route) == ["clsact", "pfifo"]
