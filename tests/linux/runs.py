# SPDX-License-Identifier: BSD-3-Clause
"""Small runs of the Linux datapath, for its tests."""

from typing import Any

import numpy as np

from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.settings import LinuxSettings
from ncc.harness.datapath import HostStack, Records
from tests.linux.patience import patiently

LAB = ManyToOne(senders=2, rate_bps=1e8, delay_s=10e-6, buffer_bytes=150_000, mark_threshold_bytes=20_000)
TRANSPORT = Transport(recovery="classic", min_rto_s=0.01)
SETTINGS = LinuxSettings(missed_frac=1.0, heartbeat_timeout_s=10.0)
"""Settings of runs that no other work on the machine changes."""


def scenario(*flows: tuple[str, int, float], duration_s: float = 0.5, topology: Any = LAB, **more: Any) -> Scenario:
    """Flows (sender, bytes, start) to the receiver."""
    fixed = Fixed(flows=tuple(Flow(start_s=at, src=src, dst="receiver", size_bytes=n) for src, n, at in flows))
    settings: dict[str, Any] = {"duration_s": duration_s, "drain_s": 100.0, "transport": TRANSPORT} | more
    return Scenario(name="test", topology=topology, workload=(("fixed", fixed),), **settings)


PAIR = scenario(("s0", 300_000, 0.0), ("s1", 100_000, 0.05))
LONG = scenario(("s0", 200_000_000, 0.0), ("s0", 200_000_000, 0.0), ("s1", 200_000_000, 0.0), drain_s=2.0)
UNLIMITED = np.full(2, np.inf)


def start(datapath: LinuxDatapath, what: Scenario, stack: HostStack | None = None) -> Measurement:
    """Start a run as soon as no other one has the machine."""
    return patiently(lambda: datapath.start(what, what.flows(1), stack or HostStack(), 1))


def until_done(
    datapath: LinuxDatapath, what: Scenario, limits: FloatArray = UNLIMITED
) -> tuple[list[Measurement], Records]:
    epochs: list[Measurement] = []
    while not epochs or (epochs[-1].flows_finished < len(what.flows(1)) and epochs[-1].time_s < 90):
        epochs.append(datapath.step(limits))
    return epochs, datapath.finish()
