# SPDX-License-Identifier: BSD-3-Clause
"""Bursts to one receiver, in a small network of leaves and spines."""

from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import LeafSpine
from ncc.core.workload import Incast

G = 1e9
FABRIC = LeafSpine(
    leaves=2,
    spines=1,
    hosts_per_leaf=4,
    host_rate_bps=G,
    spine_rate_bps=4 * G,
    buffer_bytes=100_000,
    mark_threshold_bytes=30_000,
)
HOSTS = FABRIC.build().group("hosts")
BURST = Incast(
    events_per_s=100, fan_in=24, bytes_per_server=32_000, sources="hosts", destinations="hosts", jitter_s=5e-5
)


def scenario(**changes: object) -> Scenario:
    values = {
        "name": "burst",
        "topology": FABRIC,
        "workload": (("burst", BURST),),
        "duration_s": 0.03,
        "period_s": 1e-4,
        "neighbourhoods": "receivers",
        "transport": Transport(recovery="modern"),
    } | changes
    return Scenario(**values)  # type: ignore[arg-type]
