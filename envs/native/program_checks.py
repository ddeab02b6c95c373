# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the programs of a topology's ports fit together and fit the scenario."""

import math

from ncc.baselines.registry import (
    CHOOSES_NEXT,
    COUNTS,
    OWNS_QUEUE,
    PAUSE_BYTES,
    PAUSES,
    RANKED,
    ROUTES,
    SYMMETRIC,
    TAG_LEAVES,
    TAG_WAYS,
    TAGS,
    check_named,
    program_needs,
)
from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topology import Buffer, NodeKind, Topology
from ncc.core.units import BITS_PER_BYTE


def check_programs(scenario: Scenario) -> None:
    """Raise `UnknownNameError` or `ConfigError` unless programs exist and fit each other and the scenario."""
    ports = [buffer for link in scenario.network().links for buffer in (link.a_buffer, link.b_buffer)]
    buffers = list(dict.fromkeys(buffer for buffer in ports if buffer is not None and buffer.programs))
    if not buffers:
        return
    for program in dict.fromkeys(program for buffer in buffers for program in buffer.programs):
        check_named("program of a switch", program.name, program.params)
    used = sorted({program.name for buffer in buffers for program in buffer.programs})
    _check_pairs(buffers, used)
    for name in used:
        needs = program_needs()[name]
        if needs & SYMMETRIC and scenario.routing != "symmetric":
            raise ConfigError(
                f"Program {name} needs ACKs to return on the path of their data, and Scenario.routing is "
                f"{scenario.routing}: set it to symmetric"
            )
        if needs & ROUTES and scenario.routing != "ecmp":
            raise ConfigError(
                f"Program {name} chooses among ways of equal length, and so does Scenario.routing "
                f"{scenario.routing}: set it to ecmp"
            )
        transport = scenario.transport
        if needs & COUNTS and (not transport.handshake or transport.connections_per_pair):
            raise ConfigError(
                f"Program {name} counts flows by SYN-ACKs and FINs, so every flow must open its own "
                "connection: set Scenario.transport.handshake to true and connections_per_pair to 0"
            )
        if needs & TAGS:
            _check_tags(name, scenario.network())
    _check_pauses(scenario)
    for buffer in buffers:
        owners = _having(buffer, OWNS_QUEUE, "own the queue of a port")
        _having(buffer, ROUTES, "choose the ways of a switch")
        rival = next((name for name, asked in _rivals(buffer).items() if asked), None)
        if rival and owners and program_needs()[owners[0]] & CHOOSES_NEXT:
            raise ConfigError(
                f"Program {owners[0]} owns the queue of its port, which {rival} would too: leave one of them out"
            )


def _check_pairs(buffers: list[Buffer], used: list[str]) -> None:
    """Raise `ConfigError` if a port has a program twice, or if two programs need different routing."""
    for buffer in buffers:
        names = [program.name for program in buffer.programs]
        if twice := [name for name in used if names.count(name) > 1]:
            raise ConfigError(f"Program {twice[0]} is named twice for a port: leave one of them out of programs")
    symmetric, choosing = ([name for name in used if program_needs()[name] & need] for need in (SYMMETRIC, ROUTES))
    if symmetric and choosing:
        raise ConfigError(
            f"Program {symmetric[0]} needs ACKs to return on the path of their data, and program {choosing[0]} chooses "
            "the path of each packet: leave one of them out of programs"
        )


def _check_tags(name: str, network: Topology) -> None:
    """Raise `ConfigError` unless the program is at every port of a fabric of leaves and spines."""
    hosts = {node for node, each in enumerate(network.nodes) if each.kind is NodeKind.HOST}
    leaves = {peer for host in hosts for peer, _ in network.peers[host]}
    spines = set(range(len(network.nodes))) - hosts - leaves
    for link in network.links:
        ends = {link.a, link.b}
        if not (ends & leaves and ends & (hosts | spines)):
            raise ConfigError(
                f"Program {name} is for two layers of switches, leaves and spines, and nodes "
                f"{network.nodes[link.a].name} and {network.nodes[link.b].name} are linked: set scenario.topology to "
                "leaf_spine, or leave the program out"
            )
    for port in range(2 * len(network.links)):
        buffer = network.port_buffer(port)
        if buffer is None:
            continue
        names = [program.name for program in buffer.programs]
        if name not in names:
            raise ConfigError(
                f"Program {name} is not at port {network.port_name(port)}, and leaves and spines must all run it: give "
                "it to all ports"
            )
        if rival := next((each for each in names if program_needs()[each] & RANKED), None):
            raise ConfigError(
                f"Program {name} writes its tag into the field of packets in which {rival} reads a rank: leave one of "
                "them out of programs"
            )
    ways = max(sum(peer in spines for peer, _ in network.peers[leaf]) for leaf in leaves)
    if len(leaves) > TAG_LEAVES or ways > TAG_WAYS:
        raise ConfigError(
            f"Program {name} has tables for {TAG_LEAVES} leaves and {TAG_WAYS} paths between two of them, and the "
            f"topology has {len(leaves)} and {ways}: make it smaller, or leave the program out"
        )


def has_program(network: Topology, need: int) -> bool:
    """Return true if a port has a program with `need`, bits of `ncc.baselines.registry.program_needs`."""
    buffers = (buffer for link in network.links for buffer in (link.a_buffer, link.b_buffer) if buffer is not None)
    return any(program_needs()[program.name] & need for buffer in buffers for program in buffer.programs)


def _having(buffer: Buffer, need: int, what: str) -> list[str]:
    """List the port's programs with `need`; raise `ConfigError` if there are two, since at most one is allowed."""
    names = [program.name for program in buffer.programs if program_needs()[program.name] & need]
    if len(names) > 1:
        raise ConfigError(f"Programs {names[0]} and {names[1]} both {what}: leave one of them out of programs")
    return names


def _check_pauses(scenario: Scenario) -> None:
    """Raise `ConfigError` if a port's buffer cannot hold all that other links send before their pauses take effect."""
    transport, network = scenario.transport, scenario.network()
    frame_bytes = PAUSE_BYTES + transport.frame_overhead_bytes
    needs: dict[int, dict[int, float]] = {}  # by switch and port: most bytes that come over the port's link
    pausing: dict[int, list[str]] = {}  # by switch
    ports: dict[tuple[int, int], Buffer] = {}
    for index, link in enumerate(network.links):
        # Packets come while the pause waits for a packet and another pause, and until the far end ends its packet.
        headroom = 2 * link.delay_s * link.rate_bps / BITS_PER_BYTE + 3 * transport.mtu_bytes + 2 * frame_bytes
        for port, node, buffer in ((2 * index, link.a, link.a_buffer), (2 * index + 1, link.b, link.b_buffer)):
            if buffer is None:
                continue
            ports[node, port] = buffer
            for name in _having(buffer, PAUSES, "pause the link of a port"):
                (given,) = (each.params for each in buffer.programs if each.name == name)
                params = check_named("program of a switch", name, given)
                needs.setdefault(node, {})[port] = params["xoff_bytes"] + headroom
                pausing.setdefault(node, []).append(name)
    for (node, port), buffer in ports.items():
        if node not in needs:
            continue
        name, programs = network.port_name(port), " and ".join(dict.fromkeys(pausing[node]))
        if port not in needs[node]:
            raise ConfigError(
                f"Program {programs} is not at port {name}, whose switch has it at others: give it to all of them"
            )
        owner = next((p.name for p in buffer.programs if program_needs()[p.name] & OWNS_QUEUE), None)
        if buffer.shaped_frac > 0:
            raise ConfigError(
                f"Program {programs} pauses links, and the shaped queue of a port drops what finds no room: set "
                "shaped_frac to 0 or leave the program out"
            )
        if rival := "shared_buffer_bytes" if buffer.pool is not None else owner:
            raise ConfigError(
                f"Program {programs} keeps ports from dropping, and {rival} makes them drop before their buffers are "
                "full: leave one of them out"
            )
        most_bytes = math.ceil(sum(headroom_bytes for other, headroom_bytes in needs[node].items() if other != port))
        if most_bytes > buffer.size_bytes:
            raise ConfigError(
                f"Program {programs} has no headroom at port {name}: the other links of its switch may bring "
                f"{most_bytes} bytes before they are paused, and its buffer has {buffer.size_bytes}: set buffer_bytes "
                "to at least that, or lower xoff_bytes"
            )


def _rivals(buffer: Buffer) -> dict[str, bool]:
    """Return the settings that decide the order or length of a port's queue, each with True if it is set."""
    return {
        "classes": buffer.classes > 1,
        "control_first": buffer.control_first,
        "mark_on_departure": buffer.mark_on_departure,
        "shared_buffer_bytes": buffer.pool is not None,
    }
