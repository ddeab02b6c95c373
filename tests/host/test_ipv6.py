# SPDX-License-Identifier: BSD-3-Clause
"""Agents whose addresses are of IPv6: their limits, the connections that they measure, and their messages."""

import argparse
import errno
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.envs.linux import namespaces
from ncc.envs.linux.order_program import CLASSES
from ncc.envs.linux.queue import EARLY, FIRST, REST
from ncc.host.addresses import local_hosts
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


def test_the_host_s_address_is_the_one_that_lasts_or_it_is_asked_for() -> None:
    """The kernel names the newest first: each message of a router may bring a temporary one."""
    options = argparse.Namespace(interface=["line0"], address=None, netns=None, dry_run=True)
    with line() as on, namespaces.inside(on.host):
        for name, value in (("use_tempaddr", "2"), ("accept_dad", "0")):
            Path("/proc/sys/net/ipv6/conf/line0", name).write_text(value)
        say(f"-n {on.host} address del {OWN_IPV6}/64 dev line0")
        say(f"-n {on.host} address add {OWN_IPV6}/64 dev line0 mngtmpaddr")  # and the temporary one with it
        say(f"-n {on.host} address add fd00:8::5/64 dev line0 preferred_lft 0")
        hosts, ((*measured,),) = local_hosts(options, ipv6=True)
        assert hosts == [OWN_IPV6]
        assert len(measured) == 4, "connections from the others are measured"
        say(f"-n {on.host} address add fd00:8::6/64 dev line0")
        with pytest.raises(ConfigError, match=rf"IPv6 \(fd00:8::6, {OWN_IPV6}\), and .* --address$"):
            local_hosts(options, ipv6=True)
        assert local_hosts(options)[0] == ["10.8.0.1"]
        options.address = ["fd00:8::6"]
        assert local_hosts(options, ipv6=True)[0] == ["fd00:8::6"]


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


def test_what_the_kernel_refuses_to_a_socket_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [f"[fd00:8::{i:x}]:5000" for i in range(8, 263)]
    with line() as on, namespaces.inside(on.host):
        Path("/proc/sys/net/core/optmem_max").write_text("4096")
        with pytest.raises(ConfigError, match=r"cannot listen on \[fd00:8::1\]:5000: .* raise net.core.optmem_max"):
            opened(f"[{OWN_IPV6}]:5000", *others)
    unknown = Mock(side_effect=OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol"))
    monkeypatch.setattr(socket, "socket", unknown)
    options = argparse.Namespace(interface=["lo"], address=["::1"], netns=None, dry_run=True)
    for refused in (lambda: opened("[::1]:5000", "[::2]:5000"), lambda: local_hosts(options)):
        with pytest.raises(ConfigError, match="let RestrictAddressFamilies of the unit have AF_INET6"):
            refused()


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
