# SPDX-License-Identifier: BSD-3-Clause
"""Ultra Ethernet's ports: thresholds from the bandwidth-delay product of the longest path (UE specification 1.0).

Shares of it are those of the consortium's simulator (uet-htsim, commit 40ccb05), as section 3.6.13 leaves them open.
"""

from math import ceil

from ncc.core.errors import ConfigError
from ncc.core.pipes import longest_rtt_s
from ncc.core.topology import Buffer, Program, Red, Topology
from ncc.core.units import HEADER_BYTES, bdp_bytes

MARK_BDP = (1, 5), (4, 5)
"""Queue from which packets are marked, and from which all are, as fractions. Between them the probability rises from 0
to 1."""
DATA_BDP, HEADERS_BDP = 1, 2
"""Queue of data beyond which packets are trimmed, and room for headers."""


def with_uet(network: Topology, mtu_bytes: int, frame_overhead_bytes: int) -> Topology:
    """Give all switch ports of a network the thresholds of Ultra Ethernet, in place of all other marking.

    The BDP of a port is what its line carries in the longest RTT between two hosts, counted in full packets and rounded
    up, as are the thresholds. Marking goes by the queue that a packet leaves, and headers are sent before data.

    Args:
        mtu_bytes: size of a full IP packet.
        frame_overhead_bytes: bytes on the wire beside it.

    Raises:
        ConfigError: a buffer is too small.
    """
    wire_bytes = mtu_bytes + frame_overhead_bytes
    rtt_s = longest_rtt_s(network, wire_bytes, HEADER_BYTES + frame_overhead_bytes)

    def port(buffer: Buffer | None, rate_bps: float) -> Buffer | None:
        if buffer is None:
            return None
        bdp_pkts = ceil(bdp_bytes(rate_bps, rtt_s) / wire_bytes)
        low, high = (ceil(bdp_pkts * part / whole) * mtu_bytes for part, whole in MARK_BDP)
        data, headers = (part * bdp_pkts * mtu_bytes for part in (DATA_BDP, HEADERS_BDP))
        if buffer.size_bytes < data + headers:
            raise ConfigError(
                f"uet takes {DATA_BDP + HEADERS_BDP} bandwidth-delay products of each port, and a port of "
                f"{rate_bps / 1e9:g} Gbit/s has {buffer.size_bytes} bytes: set buffer_bytes to {data + headers} or more"
            )
        trim = Program(name="trim", params=(("over_bytes", data), ("header_bytes", headers)))
        changed: Buffer = buffer.replace(
            mark_threshold_bytes=0,
            red=Red(min_bytes=low, max_bytes=max(high, low + mtu_bytes), max_prob_frac=1.0),
            mark_on_departure=True,
            control_first=True,
            programs=(*buffer.programs, trim),
        )
        return changed

    links = (
        link.replace(a_buffer=port(link.a_buffer, link.rate_bps), b_buffer=port(link.b_buffer, link.rate_bps))
        for link in network.links
    )
    return Topology(
        nodes=network.nodes, links=tuple(links), groups=network.groups, neighbourhoods=network.neighbourhoods
    )
