# SPDX-License-Identifier: BSD-3-Clause
"""Checks that message transports (`baselines/transport.h`) have the network that they need."""

from ncc.baselines.registry import (
    RANKED,
    ROUTES,
    TRIMS,
    TransportNeeds,
    message_transports,
    program_needs,
    with_defaults,
)
from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.topology import MOST_CLASSES, Buffer
from ncc.harness.datapath import HostStack

LEAST_SHAPED_BPS = 84 * 8 * 100
"""Least rate of a shaped queue: 100 words a second. Rates of words, which are a share of it, then are never 0."""


def check_transports(scenario: Scenario, stack: HostStack) -> None:
    """Raise `ConfigError` unless the scenario has what the stack's message transports need, and nothing they lack."""
    used = {name: message_transports()[name] for name in stack.transports if name in message_transports()}
    if not used:
        return
    ports = [buffer for link in scenario.network().links for buffer in (link.a_buffer, link.b_buffer) if buffer]
    for name, info in used.items():
        _check_ports(name, info.needs, scenario, ports)
        _check_queues(name, info.needs, stack, ports)
        _check_routes(name, info.needs, scenario, ports)
        _check_hosts(name, scenario, stack)
    _check_blind(stack, ports)
    _check_entropy(scenario, stack)
    _check_beside(scenario, stack, ports)


def _check_ports(name: str, needs: TransportNeeds, scenario: Scenario, ports: list[Buffer]) -> None:
    if needs & TransportNeeds.SHAPED and not (scenario.nic.shaped_frac and all(port.shaped_frac for port in ports)):
        raise ConfigError(
            f"Transport {name} needs a shaped queue in every port and NIC: set shaped_frac of Scenario.topology and of "
            "Scenario.nic above 0"
        )
    slowest_bps = min(link.rate_bps for link in scenario.network().links)
    least_frac = min([scenario.nic.shaped_frac, *(port.shaped_frac for port in ports)])
    if needs & TransportNeeds.SHAPED and least_frac * slowest_bps < LEAST_SHAPED_BPS:
        raise ConfigError(
            f"Transport {name} needs shaped queues of at least {LEAST_SHAPED_BPS} bit/s: set shaped_frac of "
            f"Scenario.topology and of Scenario.nic to {LEAST_SHAPED_BPS / slowest_bps:.2g} or more"
        )


def _check_queues(name: str, needs: TransportNeeds, stack: HostStack, ports: list[Buffer]) -> None:
    if needs & TransportNeeds.TRIMS and not all(_has(port, TRIMS) for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that trim: set programs of Scenario.topology to a list with trim in it"
        )
    if needs & TransportNeeds.TRIMS and not all(port.control_first for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that send headers before data: set control_first of Scenario.topology to "
            "true"
        )
    if needs & TransportNeeds.MARKS and not all(port.red and port.mark_on_departure for port in ports):
        raise ConfigError(
            f"Transport {name} needs ports that mark by the queue that a packet leaves behind: set red of "
            "Scenario.topology, such as from 0.2 to 0.8 of the longest path's bandwidth-delay product with "
            "max_prob_frac 1, and mark_on_departure to true"
        )
    if needs & TransportNeeds.CLASSES and stack.tags != "none":
        raise ConfigError(
            f"Transport {name} gives its data classes of its own, and tags {stack.tags} would give it others: set "
            "stack.tags to none"
        )
    if needs & TransportNeeds.CLASSES and any(port.classes < MOST_CLASSES for port in ports):
        raise ConfigError(
            f"Transport {name} needs {MOST_CLASSES} classes in every port: set classes of Scenario.topology to "
            f"{MOST_CLASSES}"
        )
    if needs & TransportNeeds.RANKED and (stack.tags == "none" or not all(_has(port, RANKED) for port in ports)):
        raise ConfigError(
            f"Transport {name} needs ranks and ports that serve by them: set stack.tags, such as to remaining, and "
            "programs of Scenario.topology to a list with pfabric in it"
        )


def _check_blind(stack: HostStack, ports: list[Buffer]) -> None:
    blind = [
        name for name, params in stack.controllers if name in message_transports() and dict(params).get("blind_pkts")
    ]
    if blind and not all("selective" in {program.name for program in port.programs} for port in ports):
        raise ConfigError(
            f"Transport {blind[0]} sends data unasked (blind_pkts), which ports must drop first: set programs of "
            "Scenario.topology to a list with selective in it, or blind_pkts to 0"
        )
    if blind and any(port.control_first for port in ports):
        raise ConfigError(
            f"Transport {blind[0]} sends a PROBE behind its unasked data, which must not overtake it: set "
            "control_first of Scenario.topology to false, or blind_pkts to 0"
        )


def _check_entropy(scenario: Scenario, stack: HostStack) -> None:
    for name, params in stack.controllers:
        known = message_transports().get(name)
        chooses = known and with_defaults(name, known.params, params).get("choice")
        if chooses and scenario.routing != "entropy":
            raise ConfigError(
                f"Transport {name} chooses an entropy for each packet (choice), and Scenario.routing is "
                f"{scenario.routing}: set it to entropy, or choice to 0"
            )


def _has(port: Buffer, need: int) -> bool:
    return any(program_needs()[program.name] & need for program in port.programs)


def _check_routes(name: str, needs: TransportNeeds, scenario: Scenario, ports: list[Buffer]) -> None:
    if needs & TransportNeeds.SYMMETRIC and scenario.routing != "symmetric":
        raise ConfigError(
            f"Transport {name} needs its words to come back the way of their data, and Scenario.routing is "
            f"{scenario.routing}: set it to symmetric"
        )
    choosing = {each.name for port in ports for each in port.programs if program_needs()[each.name] & ROUTES}
    if needs & TransportNeeds.ONE_WAY and (scenario.routing == "spray" or choosing):
        raise ConfigError(
            f"Transport {name} takes a gap for a loss, so packets of a flow must not overtake each other: set "
            "Scenario.routing to ecmp or symmetric, without a program that chooses ways"
        )


def _check_hosts(name: str, scenario: Scenario, stack: HostStack) -> None:
    transport = scenario.transport
    if transport.handshake or transport.connections_per_pair:
        raise ConfigError(
            f"Transport {name} opens no connections: set Scenario.transport.handshake to false and "
            "connections_per_pair to 0"
        )
    if scenario.nic.knows != "sizes":
        raise ConfigError(f"Transport {name} needs sizes of flows: set Scenario.nic.knows to sizes")
    if any(traffic.writes != "at_once" for _, traffic in scenario.workload):
        raise ConfigError(f"Transport {name} sends messages written as a whole: set writes of the workload to at_once")
    if scenario.has_receivers or stack.hold:
        raise ConfigError(
            f"Transport {name} lets its own receivers grant what is sent: set Scenario.neighbourhoods to uplink and "
            "stack.hold to false"
        )


def _check_beside(scenario: Scenario, stack: HostStack, ports: list[Buffer]) -> None:
    """Refuse transports that would share one queue, which is what each is designed against."""
    given = {part.component for part in stack.components}
    own = [part.transport for part in stack.components]
    if {name for name, _ in scenario.workload} - given:
        own.insert(0, stack.transport)
    messages = list(dict.fromkeys(name for name in own if name in message_transports()))
    tcp = [name for name in own if name not in message_transports()]
    if len(messages) > 1:
        raise ConfigError(f"Transports {messages[0]} and {messages[1]} would share queues: leave one of them out")
    if not messages or not tcp:
        return
    needs = message_transports()[messages[0]].needs
    if needs & (TransportNeeds.TRIMS | TransportNeeds.RANKED):
        raise ConfigError(
            f"Transport {messages[0]} needs ports with short queues, and {tcp[0]}, which is TCP's, fills them: leave "
            "one of them out"
        )
    parted = needs & TransportNeeds.CLASSES or stack.tags != "none"
    if not parted or any(port.classes == 1 for port in ports):
        raise ConfigError(
            f"Transport {messages[0]} and {tcp[0]}, which is TCP's, would share one queue in each port: set "
            "Scenario.topology.classes to 2 or more and stack.tags to what parts their flows, or leave one of them out"
        )
