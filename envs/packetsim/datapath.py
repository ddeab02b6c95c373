# SPDX-License-Identifier: BSD-3-Clause
"""`PacketsimDatapath`: our own packet engine, stepped one period at a time. A process can have any number of them.

It models every packet: TCP at both ends as in ns-3 3.44 with our settings (handshake, SACK or NewReno recovery, limited
transmit, RFC 6298 timers, delayed ACKs, classic or DCTCP's ECN echo, pacing if the controller asks for it, windows of
both buffers); at the sending host a queue per flow, an order among flows, a token bucket and the wire;
store-and-forward switches with shortest paths and ECMP by flow hash; and at each port a buffer of its own or a share of
its switch's by dynamic threshold, step or RED marking, drop-tail, and priority for control packets if asked for. Links
carry `frame_overhead_bytes` beside each IP packet and are exact to the picosecond; events fall on whole nanoseconds.

The host below TCP follows the same rules as ns-3's in `ncc.envs.ns3.datapath`; docs/agreement compares both. Not
modelled are payload, checksums, ARP, ICMP, and the closing of connections.

`transports` are the controllers of `baselines/`. Equal seeds give bit-equal runs, which depend on no clock, no thread
and no random source beside the seed.
"""

from ncc.envs.native.base import NativeDatapath
from ncc.envs.packetsim.batch import NativeBatch
from ncc.harness.networks import Networks


class PacketsimDatapath(NativeDatapath):
    """The packet engine behind the `Datapath` protocol."""

    name = "packetsim"
    title = "packetsim"
    module = "ncc.envs.packetsim._packetsim"

    @classmethod
    def batch(cls, n: int, *, threads: int, first: int) -> Networks:
        """Make networks that are stepped in one call; see `ncc.harness.networks.Batching`."""
        return NativeBatch(cls, n, threads=threads, first=first)


DATAPATH = PacketsimDatapath
