# SPDX-License-Identifier: GPL-2.0-only
"""A scenario as an ordinary ns-3 program: stock devices, queue discs and sockets, without limits and epochs.

`Ns3Datapath` is compared with it in results (tests/ns3/test_parity.py) and in CPU time (`ncc.bench`).
"""

from dataclasses import dataclass

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray, FlowTable, IntArray
from ncc.core.scenario import Scenario
from ncc.core.units import to_ns
from ncc.envs.ns3.datapath import Ns3Datapath
from ncc.harness.datapath import HostStack

PPP_BYTES = 2
"""Framing bytes of ns-3's point-to-point device."""


@dataclass(frozen=True)
class PlainRun:
    """Results of the flows [n_flows] and of the switch ports [2 * n_links] (0 at host ends)."""

    finish_s: FloatArray
    """Time at which the receiver had every byte; NaN if it never did."""
    dropped_pkts: IntArray
    marked_pkts: IntArray
    cpu_s: float
    """CPU time of the run, without setting it up."""


def run_plain(scenario: Scenario, flows: FlowTable, transport: str, seed: int, *, stop_s: float) -> PlainRun:
    """Run until every flow has finished, or `stop_s` of simulated time.

    Hosts have drop-tail device queues and no back-pressure, so if a host's own link is the bottleneck its queue holds
    the whole send buffer. A switch port holds one packet more than its buffer, in the device below the queue disc.

    Raises:
        ConfigError: `transport` is not one of ns-3's own; or the scenario has a framing other than PPP's 2 bytes,
            modern recovery, or switches that do more than drop-tail and step marking.
        DatapathError: another simulation is live in this process.
    """
    if scenario.transport.frame_overhead_bytes != PPP_BYTES:
        raise ConfigError(
            f"Scenario.transport.frame_overhead_bytes must be {PPP_BYTES} in an ordinary ns-3 program (PPP), "
            f"got {scenario.transport.frame_overhead_bytes}"
        )
    if scenario.transport.recovery != "classic":
        raise ConfigError(
            "Scenario.transport.recovery must be classic in an ordinary ns-3 program, whose TCP has no RACK-TLP, got "
            f"{scenario.transport.recovery}"
        )
    network = scenario.network()
    buffers = [buffer for link in network.links for buffer in (link.a_buffer, link.b_buffer) if buffer is not None]
    if network.pools or any(
        b.red or b.control_first or b.mark_on_departure or b.classes > 1 or b.programs for b in buffers
    ):
        raise ConfigError(
            "Scenario.topology must not set red, control_first, mark_on_departure, classes, programs or "
            "shared_buffer_bytes in an ordinary ns-3 program, whose queue discs know drop-tail and step marking"
        )
    spec = Ns3Datapath.spec_of(scenario, flows, HostStack(transport=transport), seed)
    from ncc.envs.ns3 import _ns3

    try:
        result = _ns3.run_plain(spec, to_ns(stop_s))
    except ValueError as error:
        raise ConfigError(f"Scenario {scenario.name!r} cannot run as an ordinary ns-3 program: {error}.") from None
    except RuntimeError as error:
        raise DatapathError(f"Cannot start: {error}.") from None
    return PlainRun(**result)
