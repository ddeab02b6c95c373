# SPDX-License-Identifier: BSD-3-Clause
"""Agents whose addresses are of IPv6: their limits, the connections that they measure, and their messages."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from ncc.envs.linux import namespaces
from ncc.envs.linux.order_program import CLASSES
from ncc.envs.linux.queue import EARLY, FIRST, REST
from ncc.host.keys import Key, Keys
from ncc.host.message import SIZE
from tests.host.agents import AgentProcess, busy, limited_to
from tests.host.hosts import KEYS, states
from tests.host.lines import LIMIT_BPS, OPTIONS, PEER, PEER_IPV6, line
from tests.host.test_exchange import opened, until
from tests.linux.lines import sending
from tests.linux.rates import check_limit
from tests.linux.spaces import say
from tests.linux.test_shares import classes
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

OWN_IPV6 = "fd00:8::1"
BYTES = 5000
MESSAGES_BPS = 8 * 1000 * (SIZE + 8 + 40)
"""Packets of an agent's messages, one each ms with headers of UDP and IPv6, which no limit holds back."""

pytestmark = needs(*TRAFFIC)


def test_agents_over_ipv6_hear_each_other_and_measure_and_limit_its_connections(policy_path: Path, key: str) -> None:
    """The interface has IPv4 too: the version of the peers chooses the agent's address."""
    with line() as on, ExitStack() as opened_:
        agents = [
            opened_.enter_context(
                AgentProcess(
                    name,
                    [
                        *(str(policy_path), *OPTIONS[2:], "--interface", f"line{i}", "--name", f"ncc_test_{i}"),
                        *("--peers", f"[{(PEER_IPV6, OWN_IPV6)[i]}]", "--key", key),
                    ],
                )
            )
            for i, name in enumerate((on.host, on.peer))
        ]
        own, _ = agents
        assert own.wait_for("started")["addresses"] == [[OWN_IPV6, "10.8.0.1"]]
        for agent in agents:
            agent.wait_for("started")
        assert eventually(lambda: limited_to(own) == [LIMIT_BPS])
        assert eventually(lambda: own.events("report")[-1]["stale_peers"] == 0)
        with on.flowing("ncc_test_0", to=PEER_IPV6, family=socket.AF_INET6) as sender, sending(sender):
            check_limit(on.count, LIMIT_BPS + MESSAGES_BPS, reached_frac=0.8)
            assert eventually(lambda: bool(busy(own)))
        assert [agent.end() for agent in agents] == [0, 0]
    for agent in agents:
        messages = agent.wait_for("ended")["messages"]
        assert messages["sent"] > 0
        assert messages["send_errors"] == messages["forged"] == 0
    assert own.wait_for("ended")["messages"]["received"] > 0


@pytest.mark.attack("n27")
@pytest.mark.parametrize(
    ("family", "peer"), [(socket.AF_INET, PEER), (socket.AF_INET6, PEER_IPV6)], ids=["IPv4", "IPv6"]
)
def test_packets_of_both_versions_wait_in_the_same_classes(family: socket.AddressFamily, peer: str) -> None:
    """Small datagrams, such as questions for names; large ones; and messages of TCP, by their known bytes."""
    with line() as on, ExitStack() as undo:
        program, made = undo.enter_context(on.queue())
        program._config["upto_bytes"] = [10_000, *[1 << 40] * (CLASSES - 2)]

        def uses(leaf: int, send: Callable[[], object]) -> bool:
            before = classes(made)[leaf]
            send()
            return eventually(lambda: classes(made)[leaf] - before >= BYTES)

        datagrams = undo.enter_context(on.opened(socket.SOCK_DGRAM, family=family))
        datagrams.connect((peer, 5000))
        with undo.enter_context(on.opened(socket.SOCK_DGRAM, there=True, family=family)) as receiver:
            receiver.bind((peer, 5000))
            assert uses(EARLY, lambda: [datagrams.send(bytes(100)) for _ in range(BYTES // 100)])
            assert uses(REST, lambda: [datagrams.send(bytes(1000)) for _ in range(BYTES // 1000)])
        for size_bytes, leaf in ((BYTES, FIRST), (20 * BYTES, FIRST + 1)):
            stream = undo.enter_context(on.flowing(to=peer, family=family))
            assert uses(leaf, lambda: stream.sendall(bytes(size_bytes)))  # noqa: B023 - called at once


@pytest.mark.attack("7")
def test_the_kernel_drops_what_comes_from_another_address_of_ipv6() -> None:
    """Each address differs from the peer's in one word."""
    wrong = ("fd00:9::8", "fd00:8:1::8", "fd00:8::1:0:8", "fd00:8::7")
    with line() as on, ExitStack() as undo:
        for address in ("fd00:8::8", *wrong):
            say(f"-n {on.peer} address add {address}/128 dev line1 nodad")
            say(f"-n {on.host} route replace {address}/128 dev line0")
        with namespaces.inside(on.host):
            a = undo.enter_context(closing(opened(f"[{OWN_IPV6}]:5000", "[fd00:8::8]:5000")))
        with namespaces.inside(on.peer):
            strangers = [undo.enter_context(closing(opened(f"[{each}]:5000", f"[{OWN_IPV6}]:5000"))) for each in wrong]
            elsewhere = undo.enter_context(closing(opened("[fd00:8::8]:5001", f"[{OWN_IPV6}]:5000")))
            other = Keys.shared(Key(bytes(16)))
            forger = undo.enter_context(closing(opened("[fd00:8::8]:5000", f"[{OWN_IPV6}]:5000", keys=other)))
        for each in (*strangers, elsewhere, forger):
            each.send(states(1), time.monotonic_ns())
        until(lambda: a.counters["forged"] == 1 and a.kernel_drops() == len(wrong) + 1, a)
        assert a.inbox.states_ns.tolist() == [0]
        forger.close()
        with namespaces.inside(on.peer):
            peer = undo.enter_context(closing(opened("[fd00:8::8]:5000", f"[{OWN_IPV6}]:5000", keys=KEYS)))
        peer.send(states(1), time.monotonic_ns())
        until(lambda: a.counters["received"] == 1, a)


@pytest.mark.parametrize("ports", [1, 255])
def test_agents_of_many_addresses_and_ports_of_ipv6_are_all_heard(ports: int) -> None:
    """The filter of the most peers, on one port and on one each, fits into the kernel's bounds."""
    others = [f"[fd00:8::{i:x}]:{5000 + i % ports}" for i in range(8, 263)]
    some = [others[0], others[100], others[-1]]
    with line() as on, ExitStack() as undo:
        with namespaces.inside(on.host):
            a = undo.enter_context(closing(opened(f"[{OWN_IPV6}]:5000", *others)))
        for other in some:
            say(f"-n {on.peer} address add {other.partition(']')[0][1:]}/64 dev line1 nodad")
            with namespaces.inside(on.peer):
                sender = undo.enter_context(closing(opened(other, f"[{OWN_IPV6}]:5000")))
            sender.send(states(1), time.monotonic_ns())
        until(lambda: a.counters["received"] == len(some), a)
        assert np.flatnonzero(a.inbox.states_ns).tolist() == [0, 100, 254]
