# SPDX-License-Identifier: BSD-3-Clause
"""Two machines on a link, each a network namespace: they exchange messages by a group and are cut off."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from ncc.host.exchange import ExchangeSpec, UdpExchange
from tests.host.hosts import KEYS, states
from tests.linux.spaces import say, spaces, wire
from tests.support.linux import needs
from tests.support.processes import eventually

pytestmark = needs("root", "net", "ip", "pyroute2")


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """Names of two namespaces, with the interfaces e0 of 10.1.0.1, and e1 of 10.1.0.2."""
    ends = (f"-n {{{i}}} {what} dev e{i}" for i in (0, 1) for what in (f"address add 10.1.0.{i + 1}/24", "link set up"))
    with spaces("wire0", "wire1", lines=(wire("e0", "e1"), *ends)) as names:
        yield names


def opened(machines: list[str], i: int) -> UdpExchange:
    from ncc.envs.linux import namespaces

    with namespaces.inside(machines[i]):
        peers = (f"10.1.0.{2 - i}",)
        spec = ExchangeSpec(
            listen=f"10.1.0.{i + 1}", peers=peers, group="239.255.71.94", interface=f"e{i}", late_s=10.0
        )
        return UdpExchange(spec, KEYS)


def test_two_machines_hear_each_other_and_lose_each_other(machines: list[str]) -> None:
    with closing(opened(machines, 0)) as one, closing(opened(machines, 1)) as two:

        def told() -> bool:
            for by, queued_bytes in ((one, 1), (two, 2)):
                by.send(states(1, queued_bytes=queued_bytes), time.monotonic_ns())
                by.receive(time.monotonic_ns())
            return bool(one.inbox.states_ns.all() and two.inbox.states_ns.all())

        assert eventually(told)
        assert (one.inbox.states["queued_bytes"].tolist(), two.inbox.states["queued_bytes"].tolist()) == ([2], [1])
        assert one.counters["own"] == 0  # what one sends does not come back
        say("-n", machines[1], "link", "set", "e1", "down")
        one.receive(time.monotonic_ns())  # what was under way
        last_ns, sent = one.inbox.states_ns[0], two.counters["sent"]
        for _ in range(3):
            two.send(states(1, queued_bytes=3), time.monotonic_ns())
            time.sleep(0.002)
            one.receive(time.monotonic_ns())
        assert (one.inbox.states_ns[0], two.counters["sent"]) == (last_ns, sent)
        assert two.counters["send_errors"] >= 3
