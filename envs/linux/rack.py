# SPDX-License-Identifier: BSD-3-Clause
"""`Rack`: a topology of network namespaces on this machine, used by the kernel's own TCP.

Every host and every switch is a namespace. A link is a veth pair, or the two devices of a delay program if its delay is
long enough. Each directed port of the topology is one device: a token bucket filter empties its queue at the link's
rate, with frames counted as in simulators, and the program of `switch` marks, drops and counts. A port with classes has
an HTB below its bucket that serves them in strict order; hosts write a packet's class into its DSCP (`tags`). Nothing
outside the namespaces is changed, and everything is removed with them.

Differences from the simulators: A port keeps its rate over some packets, not between any two (`BURST_S`). A hop itself
takes about 8 us, which stands for the shortest delays (`delay.HOP_S`). Packets that join a port on two processors at
the same instant do not see each other, so a buffer may be exceeded by one packet per processor. A host's own queue is
the kernel's or, with an order, a `HostQueue`, which keeps the line's rate too. All hosts send on the cores of one
machine: lines that are full at the same time carry together no more than those cores can (docs/linux), and the excess
waits in hosts.
"""

from contextlib import ExitStack, closing
from itertools import count
from types import TracebackType

from ncc.core.errors import ConfigError
from ncc.core.scenario import Nic, Transport
from ncc.core.topology import Link, NodeKind, Topology
from ncc.core.units import BITS_PER_BYTE
from ncc.envs.linux import device, machine, namespaces, stack
from ncc.envs.linux.delay import HOP_S, MIN_DELAY_S, Delay, End
from ncc.envs.linux.device import ETHERNET_BYTES
from ncc.envs.linux.netlink import Route
from ncc.envs.linux.order_program import OrderProgram, TagProgram
from ncc.envs.linux.queue import FIRST, HostQueue
from ncc.envs.linux.switch import FIRST_INDEX, Switch, check_switch, programs_of

BURST_S = 100e-6
"""Burst of a port, in seconds at its rate: timers that wake the queue are late by tens of microseconds."""
UNBOUNDED_BYTES = 2**30
"""Limit of a device's queue in the kernel, never reached: the switch's program or the host's TCP limits it."""
UNBOUNDED_PKTS = 2**20
"""Limit in packets of the queue of each class of a port, never reached either."""
BUCKET = 3
"""Handle of a port's token bucket, the parent of its HTB; `HostQueue` has other handles."""
NEVER = "rate 8tbit burst 10mb cburst 10mb quantum 60000"
"""Settings of classes that never reach their rate, so that an HTB serves them in strict order (queue.py)."""
_serial = count()


def check_rack(topology: Topology, transport: Transport) -> None:
    """Raise `ConfigError` if a topology or transport has a feature that `Rack` does not offer, naming the first one."""
    if len(topology.links) != len(topology.nodes) - 1:
        raise ConfigError(
            f"The Linux rack takes trees only, one way from each node to each other: {len(topology.nodes)} nodes need "
            f"{len(topology.nodes) - 1} links, got {len(topology.links)}."
        )
    for other in topology.hosts[1:]:
        topology.path(topology.hosts[0], other)
    if transport.frame_overhead_bytes < ETHERNET_BYTES:
        raise ConfigError(
            f"Scenario.transport.frame_overhead_bytes must be at least {ETHERNET_BYTES} (Ethernet's header) on the "
            f"Linux rack, got {transport.frame_overhead_bytes}."
        )
    if programs_of(topology) and (transport.connections_per_pair or not transport.handshake):
        raise ConfigError(
            "Programs of the Linux rack's ports know flows by SYN-ACKs and FINs, so every flow must open its own "
            "connection: set Scenario.transport.handshake to true and connections_per_pair to 0."
        )
    for i, link in enumerate(topology.links):
        if HOP_S < link.delay_s < MIN_DELAY_S:
            raise ConfigError(
                f"Link {topology.port_name(2 * i)} of the Linux rack must have a delay of at most {HOP_S * 1e6:g} us "
                f"(then it is what a hop takes) or of at least {MIN_DELAY_S * 1e6:g} us, got {link.delay_s * 1e6:g} us."
            )
    check_switch(topology)


class Rack:
    """A topology built of network namespaces. Use it as a context manager, or call `close` at the end.

    Args:
        topology: a tree.
        transport: transport of the scenario; `stack.not_honoured` lists differences of the kernel.
        nic: network card of the scenario; see `stack.not_honoured` too.
        order: program of the queues of the agents' hosts; None: these hosts have no `HostQueue`.
        tags: program that gives the packets of all hosts their classes; None: all have class 0.

    Raises:
        ConfigError: the topology or the transport asks for something that a rack does not offer.
        DatapathError: this process is not root's, or the kernel lacks something.
    """

    def __init__(
        self,
        topology: Topology,
        transport: Transport = Transport(),  # noqa: B008 - frozen
        nic: Nic = Nic(),  # noqa: B008 - frozen
        order: OrderProgram | None = None,
        tags: TagProgram | None = None,
    ) -> None:
        check_rack(topology, transport)
        self.topology = topology
        self.transport, self.nic = transport, nic
        self._cookies: list[int] = []
        self.order, self._tags = order, tags
        self.queues: dict[int, HostQueue] = {}
        """Queues of agents' hosts, by the host's node; empty without an order."""
        self.delays: dict[int, Delay] = {}
        """Delay programs by index of the link, for links that have one."""
        self._prefix = f"{namespaces.owner()}-{next(_serial)}"
        self._undo = ExitStack()
        namespaces.sweep()
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def namespace(self, node: int) -> str:
        """Name of a node's namespace, as in `ip netns`."""
        return f"{self._prefix}-{node}-{self.topology.nodes[node].name}"[: namespaces.NAME_MAX]

    def address(self, host: int) -> str:
        """IPv4 address of a host."""
        return f"10.{host + 1 >> 16}.{host + 1 >> 8 & 255}.{host + 1 & 255}"

    def port(self, host: int) -> int:
        """Return the directed port by which a host sends."""
        link = next(i for i, link in enumerate(self.topology.links) if host in (link.a, link.b))
        return 2 * link + (self.topology.links[link].b == host)

    def interface(self, host: int) -> str:
        """Name of a host's network device."""
        return _device(self.port(host))

    def cookie(self, node: int) -> int:
        """Cookie of a node's namespace (`ncc.envs.linux.machine.namespace_cookie`)."""
        return self._cookies[node]

    def hear(self, host: int, program: int) -> None:
        """Attach a tc program (a descriptor) to a host's incoming packets, before its TCP."""
        index = FIRST_INDEX + self.port(host)
        with namespaces.inside(self.namespace(host)), closing(Route()) as route:
            route.send(device.bpf_filter(index, program, name=b"ncc_signal", parent=device.INGRESS))

    def close(self) -> None:
        """Remove everything, with any process that is left inside; may be called twice."""
        self._undo.close()
        self.delays.clear()
        self.queues.clear()

    def __enter__(self) -> "Rack":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _build(self) -> None:
        nodes = range(len(self.topology.nodes))
        for node in nodes:
            self._add_node(node)
        self.switch = Switch(self.topology, self.transport.frame_overhead_bytes, self.transport.mtu_bytes)
        self._undo.callback(self.switch.close)
        for i, link in enumerate(self.topology.links):
            self._add_link(i, link)
        for node in nodes:
            ports = [port for port in range(2 * len(self.topology.links)) if self._ends(port)[0] == node]
            # One packet per buffer of the kernel, so that a mark hits one packet only.
            options = f"mtu {self.transport.mtu_bytes} txqueuelen 4096 gso_max_segs 1"
            self._ip(node, [f"link set {_device(port)} {options}" for port in ports])
            for port in ports:
                self._add_queue(node, port)
            self._ip(node, [line for port in ports for line in self._port_up(port)] + self._routes(node))

    def _ip(self, node: int, lines: list[str]) -> None:
        namespaces.iproute2("ip", "-n", self.namespace(node), "-batch", "-", lines=lines)

    def _add_node(self, node: int) -> None:
        name = self.namespace(node)
        self._undo.callback(namespaces.remove, name)  # before: an interrupt may come while it is made
        namespaces.create(name)
        is_host = self.topology.nodes[node].kind is NodeKind.HOST
        with namespaces.inside(name):
            stack.apply(stack.of_every_node())
            mode = self.order.mode if self.order and node in self.topology.agent_hosts else None
            stack.apply(stack.of_host(self.transport, self.nic, mode) if is_host else stack.of_switch())
            self._cookies.append(machine.namespace_cookie())

    def _add_link(self, i: int, link: Link) -> None:
        if link.delay_s >= MIN_DELAY_S:
            ends = [
                End(namespaces.path(self.namespace(node)), _device(port), FIRST_INDEX + port)
                for node, port in ((link.a, 2 * i), (link.b, 2 * i + 1))
            ]
            self.delays[i] = Delay(ends[0], ends[1], link.delay_s, link.rate_bps, self.transport.mtu_bytes)
            self._undo.callback(self.delays[i].close)
            return
        one, other = (f"{_device(port)} index {FIRST_INDEX + port} address {_mac(port)}" for port in (2 * i, 2 * i + 1))
        self._ip(link.a, [f"link add {one} type veth peer name {other} netns {self.namespace(link.b)}"])

    def _ends(self, port: int) -> tuple[int, int]:
        link = self.topology.links[port // 2]
        return (link.b, link.a) if port % 2 else (link.a, link.b)

    def _add_queue(self, node: int, port: int) -> None:
        """Set up a port's programs and queue."""
        header_bytes = 0 if port // 2 in self.delays else ETHERNET_BYTES
        is_host = self.topology.nodes[node].kind is NodeKind.HOST
        tags = self._tags.fd if self._tags is not None and is_host else None
        with namespaces.inside(self.namespace(node)):
            with closing(Route()) as route:
                self.switch.attach(route, port, tags)
            if self.order is None or node not in self.topology.agent_hosts:
                namespaces.iproute2("tc", "-batch", "-", lines=self._bucket(port, header_bytes))
                return
            self.queues[node] = HostQueue(
                _device(port),
                self.topology.port_rate_bps(port),
                program=self.order,
                overhead_bytes=self.transport.frame_overhead_bytes - header_bytes,
            )
        self._undo.callback(self.queues[node].close)

    def _bucket(self, port: int, header_bytes: int) -> list[str]:
        """Return commands for a port's queue without an order: a token bucket at the line's rate, perhaps classes."""
        rate_bytes_per_s = round(self.topology.port_rate_bps(port) / BITS_PER_BYTE)
        burst_bytes = max(2 * (self.transport.mtu_bytes + header_bytes), round(rate_bytes_per_s * BURST_S))
        name, buffer = _device(port), self.topology.port_buffer(port)
        lines = [
            f"qdisc add dev {name} root handle {BUCKET}: tbf rate {rate_bytes_per_s}bps burst {burst_bytes} limit "
            f"{UNBOUNDED_BYTES} overhead {self.transport.frame_overhead_bytes - header_bytes}"
        ]
        if buffer is not None and buffer.classes > 1:
            last = FIRST + buffer.classes - 1
            lines.append(f"qdisc add dev {name} parent {BUCKET}:1 handle 2: htb default {last & 0xFFFF:x}")
            for prio, classid in enumerate(f"2:{handle & 0xFFFF:x}" for handle in range(FIRST, last + 1)):
                lines += [
                    f"class add dev {name} parent 2: classid {classid} htb {NEVER} prio {prio}",
                    f"qdisc add dev {name} parent {classid} pfifo limit {UNBOUNDED_PKTS}",
                ]
        return lines

    def _port_up(self, port: int) -> list[str]:
        """Return commands that make a port work, with the address of the other end."""
        lines = [f"link set {_device(port)} up"]
        if port // 2 not in self.delays:
            other = port ^ 1
            lines.append(f"neigh add {_gateway(other)} lladdr {_mac(other)} dev {_device(port)} nud permanent")
        return lines

    def _routes(self, node: int) -> list[str]:
        """Return commands that set a node's routes.

        A switch has a route to every host. A host has a single one, which holds the settings of its TCP.
        """
        if self.topology.nodes[node].kind is NodeKind.HOST:
            port, address = self.port(node), self.address(node)
            metrics = stack.metrics(self.transport, self.order.mode if self.order else None)
            return [
                f"address add {address}/32 dev {_device(port)}",
                f"{_route('default', port)} src {address} {metrics}",
            ]
        return [_route(f"{self.address(host)}/32", self.topology.path(node, host)[0]) for host in self.topology.hosts]


def _route(to: str, port: int) -> str:
    return f"route add {to} via {_gateway(port ^ 1)} dev {_device(port)} onlink"


def _device(port: int) -> str:
    return f"p{port}"


def _mac(port: int) -> str:
    return f"02:00:00:00:{port >> 8:02x}:{port & 255:02x}"


def _gateway(port: int) -> str:
    """Gateway address of routes that lead to a port; no device has it."""
    return f"169.254.{port + 1 >> 8}.{port + 1 & 255}"
