# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios that simulators are timed on."""

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import AnyTopology, FatTree, LeafSpine, ManyToOne, Rack
from ncc.core.units import GBPS, MS
from ncc.core.workload import Fixed, Flow, Poisson
from ncc.envs.ns3.plain import PPP_BYTES

HOSTS = 16
FRAMING = Transport(frame_overhead_bytes=PPP_BYTES)
"""MTU 1500, framed as stock devices of ns-3 do."""
MARK_BYTES = 97_500
"""65 packets at 10 Gbit/s (DCTCP paper, section 3.5)."""


def incast(flow_bytes: int) -> Scenario:
    """16 senders of one long flow each to one receiver, all links 10 Gbit/s: the port marks and is never idle."""
    flows = tuple(Flow(start_s=0.0, src=f"s{i}", dst="receiver", size_bytes=flow_bytes) for i in range(HOSTS))
    return Scenario(
        name="incast_16",
        topology=ManyToOne(senders=HOSTS, rate_bps=10 * GBPS, buffer_bytes=4_000_000, mark_threshold_bytes=MARK_BYTES),
        workload=(("incast", Fixed(flows=flows)),),
        duration_s=1 * MS,
        transport=FRAMING,
    )


def full_rack(flow_bytes: int) -> Scenario:
    """16 hosts of 10 Gbit/s behind an uplink of 144 Gbit/s, one long flow each to a remote host.

    The uplink is the bottleneck and marks, so that every host sends at 9 Gbit/s. Three links to a packet.
    """
    flows = tuple(Flow(start_s=0.0, src=f"h{i}", dst=f"r{i % 4}", size_bytes=flow_bytes) for i in range(HOSTS))
    return Scenario(
        name="rack_9g",
        topology=Rack(
            hosts=HOSTS,
            host_rate_bps=10 * GBPS,
            uplink_rate_bps=HOSTS * 9 * GBPS,
            remotes=4,
            remote_rate_bps=40 * GBPS,
            buffer_bytes=4_000_000,
            mark_threshold_bytes=MARK_BYTES,
        ),
        workload=(("full", Fixed(flows=flows)),),
        duration_s=1 * MS,
        transport=FRAMING,
    )


def web_search(topology: AnyTopology, hosts: int, duration_s: float, load_frac: float = 0.5) -> Scenario:
    """Web search between random hosts at some load of their own links, which are as fast as those of switches."""
    traffic = Poisson(distribution="websearch", load_frac=load_frac * hosts, sources="hosts", destinations="hosts")
    return Scenario(name="web_search", topology=topology, workload=(("websearch", traffic),), duration_s=duration_s)


_SHARED = LeafSpine(shared_buffer_bytes=3_000_000, ports_per_pool=64, hosts_per_leaf=4, leaves=4, spines=4)

FABRICS: dict[str, tuple[AnyTopology, AnyTopology, AnyTopology]] = {
    "leaf-spine": (
        LeafSpine(leaves=4, spines=4, hosts_per_leaf=4),
        LeafSpine(leaves=32, spines=32, hosts_per_leaf=32),
        LeafSpine(leaves=4, spines=2, hosts_per_leaf=2),
    ),
    "leaf-spine, a buffer per switch": (
        _SHARED,
        _SHARED.replace(leaves=32, spines=32, hosts_per_leaf=32),
        _SHARED.replace(spines=2, hosts_per_leaf=2),
    ),
    "fat tree": (FatTree(k=4), FatTree(k=16), FatTree(k=2)),
}
"""Fabrics of 16 hosts, of 1024, and one for tests; the same form, ECMP, 10 Gbit/s."""
