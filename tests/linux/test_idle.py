# SPDX-License-Identifier: BSD-3-Clause
"""The window of a connection after a pause, as the kernel shows it: kept, halved for each timeout, or begun anew."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ncc.core.scenario import Transport
from ncc.core.topologies import Dumbbell
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.stack import jiffy_s
from tests.linux.lab import FOR_EVER_S, registered
from tests.linux.sockets import Info, info, unacknowledged
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

MSS = 1460
GROWS_BY = 200 * MSS
LINE = Dumbbell(
    pairs=1, host_rate_bps=1e9, bottleneck_rate_bps=1e8, buffer_bytes=1_000_000, mark_threshold_bytes=0
).build()
SHORT = Transport(recovery="classic", min_rto_s=0.04)
KERNEL = "reno"

pytestmark = needs(*TRAFFIC)


@contextmanager
def opening(transport: Transport, *controls: str) -> Iterator[Callable[[str], socket.socket]]:
    """A function that opens a connection by a congestion control, which may be our own."""
    with ExitStack() as opened:
        rack, (src, dst) = opened.enter_context(Rack(LINE, transport)), LINE.hosts
        with namespaces.inside(rack.namespace(dst)):
            listener = opened.enter_context(socket.create_server((rack.address(dst), 0)))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)  # nobody reads
        names = {KERNEL: KERNEL}
        for control in controls:
            if control != KERNEL:
                names[control] = opened.enter_context(registered(control, timeout_s=FOR_EVER_S)).name

        def one(control: str) -> socket.socket:
            with namespaces.inside(rack.namespace(src)):
                sender = opened.enter_context(socket.socket())
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, names[control].encode())
            sender.connect(listener.getsockname())
            opened.enter_context(listener.accept()[0])
            return sender

        yield one


def send(sender: socket.socket, n_bytes: int) -> None:
    """Send, and wait until all is acknowledged."""
    sender.sendall(bytes(n_bytes))
    assert eventually(lambda: not unacknowledged(sender))


def grown(sender: socket.socket) -> Info:
    """A connection whose window has grown."""
    send(sender, GROWS_BY)
    found = info(sender)
    assert found.window_pkts > 100
    return found


def halved(sender: socket.socket, before: Info, initial_pkts: int) -> bool:
    """True if a pause has halved the window once for each timeout during the pause."""
    least_s, read_s = info(sender).idle_s - jiffy_s(), time.monotonic()
    sender.sendall(bytes(MSS))
    window_pkts = info(sender).window_pkts
    most_s = least_s + time.monotonic() - read_s + 3 * jiffy_s()
    halvings = range(int(least_s / before.rto_s), int(most_s / before.rto_s) + 1)
    # Its packet may have been acknowledged already.
    return any(max(before.window_pkts >> n, initial_pkts) in (window_pkts, window_pkts - 1) for n in halvings)


@pytest.mark.parametrize("initial_pkts", [10, 2])
def test_our_headers_halve_the_window_as_often_as_the_kernels_own(initial_pkts: int) -> None:
    """Once for each timeout, down to the initial window."""
    controls = ("newreno", KERNEL)
    with opening(SHORT.replace(initial_window_pkts=initial_pkts), *controls) as one:
        for pause_rtos in (0.5, 1.5, 2.5, 9):
            senders = {control: one(control) for control in controls}
            befores = {control: grown(sender) for control, sender in senders.items()}
            time.sleep(pause_rtos * befores["newreno"].rto_s)
            for control, sender in senders.items():
                assert halved(sender, befores[control], initial_pkts), (control, pause_rtos)
                assert pause_rtos < 9 or info(sender).window_pkts <= initial_pkts + 1, control


def test_a_window_is_kept_where_the_transport_or_the_controller_says_so() -> None:
    """BBR's model of the path outlasts the pause."""
    for transport, controls in ((SHORT.replace(idle_restart=False), ("newreno", KERNEL)), (SHORT, ("bbr",))):
        with opening(transport, *controls) as one:
            senders = {control: one(control) for control in controls}
            for sender in senders.values():
                send(sender, GROWS_BY)
            befores = {control: info(sender) for control, sender in senders.items()}
            time.sleep(4 * max(before.rto_s for before in befores.values()))
            for control, sender in senders.items():
                sender.sendall(bytes(MSS))
                assert info(sender).window_pkts >= befores[control].window_pkts, control
