# SPDX-License-Identifier: BSD-3-Clause
"""One port shared by four long flows, on the kernel and on both simulators, and what makes them differ."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncc.compose import load_datapath
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.core.workload import Long
from ncc.harness.controller import Controller
from ncc.harness.datapath import Datapath
from ncc.harness.run import Run
from ncc.host.runs import Preset, contender, lab, linux, run_of, spreads, watched
from ncc.metrics.fairness import jain_index
from ncc.metrics.summary import host_ports

CONTROLLERS = ("dctcp", "cubic", "gemini")
RATES_MBPS = (200, 500)
DATAPATHS = ("linux", "packetsim", "ns3")
WARM_S = 0.5
"""Left out: the first windows."""
ACK_EACH = "scenario.transport.delayed_ack_pkts=1"
ACK_LATE = "scenario.transport.delayed_ack_s=0.008"
"""Just below min_rto_s, as Linux has it whatever the scenario says (`stack.not_honoured`)."""


@dataclass(frozen=True)
class Variant:
    """The scenario at 200 Mbit/s with one thing changed."""

    what: str
    datapath: str
    overrides: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    controllers: tuple[str, ...] = CONTROLLERS
    busy: bool = False
    """With a loop that never rests on every core."""
    lines_bps: float = 0.0
    """If any: the flows' hosts are joined in pairs by a line of 200 Mbit/s, and their own lines are as fast as this."""


VARIANTS = (
    Variant("segmentation offload on", "linux", settings={"segmentation_offload": True}),
    Variant("an ACK per packet", "linux", (ACK_EACH,)),
    Variant("an ACK per packet", "packetsim", (ACK_EACH,)),
    Variant("delayed ACKs after 8 ms", "packetsim", (ACK_LATE,)),
    Variant("links without delay", "packetsim", ("scenario.topology.delay_s=0",)),
    Variant("links of 200 us, delayed ACKs after 8 ms", "linux", ("scenario.topology.delay_s=2e-4", ACK_LATE)),
    Variant("links of 200 us, delayed ACKs after 8 ms", "packetsim", ("scenario.topology.delay_s=2e-4", ACK_LATE)),
    Variant("the kernel's own", "linux", controllers=("linux_cubic",)),
    *(
        Variant(f"in pairs, hosts' lines of {bps / 1e6:g} Mbit/s", datapath, controllers=("dctcp",), lines_bps=bps)
        for bps in (2e8, 2e9)
        for datapath in ("linux", "packetsim")
    ),
    Variant("a busy loop on every core", "linux", controllers=("dctcp",), busy=True),
)


def figures(run: Run) -> dict[str, float]:
    """Of one run, after `WARM_S`; retransmissions, RTTs and ACKs are of all of it."""
    at = run.epochs.time_s > WARM_S
    columns = {name: np.asarray(column)[at] for name, column in run.epochs.columns.items()}
    # Rates are over the time that passed, which is longer than a period where one was missed.
    passed_s = np.diff(run.epochs.time_s, prepend=0.0)[at]
    sent_bits = float(columns["upper_throughput_bps"][:, 0] @ passed_s)
    flows, ports, network = run.records.flows, run.records.ports, run.scenario.network()
    receivers = [port for port in host_ports(network) if port not in _senders(run.scenario)]
    return {
        "goodput_mbps": float(columns["goodput_bps"].sum(axis=1) @ passed_s / passed_s.sum()) / 1e6,
        "queue_kb": float(columns["upper_queue_mean_bytes"][:, 0] @ passed_s / passed_s.sum()) / 1e3,
        "marked_pct": 800 * run.scenario.transport.mtu_bytes * float(columns["upper_marked_pkts"].sum()) / sent_bits,
        "retransmitted_pct": 100 * float(flows.retransmitted_pkts.sum()) / float(flows.sent_pkts.sum()),
        "timeouts": float(flows.timeouts.sum()),
        "rtt_mean_us": 1e6 * float(np.nanmean(flows.rtt_mean_s)),
        "acks_per_packet": float(ports.tx_pkts[receivers].sum()) / float(flows.sent_pkts.sum()),
        "jain": float(jain_index(columns["goodput_bps"].mean(axis=0))),
        "busy_pct": 100 * float(run.datapath_facts.get("busy_frac_before", 0.0)),
    }


def _senders(scenario: Scenario) -> list[int]:
    network = scenario.network()
    ends = [node for link in network.links for node in (link.a, link.b)]
    return [port for port, node in enumerate(ends) if node in network.agent_hosts]


def scenario(rate_mbps: int, *overrides: str) -> Scenario:
    """Four to one at this rate."""
    return lab("lab_long", f"scenario.topology.rate_bps={rate_mbps * 1e6:g}", *overrides)


def _in_pairs(what: Scenario, lines_bps: float) -> Scenario:
    topology = what.topology
    assert isinstance(topology, ManyToOne)
    pairs = Dumbbell(
        pairs=topology.senders,
        host_rate_bps=lines_bps,
        bottleneck_rate_bps=topology.rate_bps,
        delay_s=topology.delay_s,
        buffer_bytes=topology.buffer_bytes,
        mark_threshold_bytes=topology.mark_threshold_bytes,
    )
    flows = Long(sources="senders", destinations="receivers", flows=topology.senders, spread_s=0.01)
    return what.replace(topology=pairs, workload=(("long", flows),))


def _controller(name: str, rate_mbps: int) -> Controller:
    return contender(name, capacity_mbps=rate_mbps) if name == "gemini" else contender(name)


def _datapath(name: str, settings: dict[str, Any]) -> Datapath:
    return linux(**settings) if name == "linux" else load_datapath(name).load()()


def _row(preset: Preset, what: Scenario, rate_mbps: int, name: str, make: Callable[[], Datapath]) -> dict[str, Any]:
    runs = [run_of(make(), what, _controller(name, rate_mbps), seed) for seed in range(1, preset.seeds + 1)]
    return {
        "rate_mbps": rate_mbps,
        "controller": name,
        **spreads([figures(run) for run in runs]),
        "problems": [f"seed {run.seed}: {problem}" for run in runs for problem in run.problems],
    }


def parity(preset: Preset) -> dict[str, Any]:
    """Every controller on every datapath at every rate."""
    rows = []
    with watched() as load:
        for rate_mbps in RATES_MBPS:
            what = scenario(rate_mbps)
            for name in CONTROLLERS:
                for datapath in DATAPATHS:
                    row = _row(preset, what, rate_mbps, name, lambda datapath=datapath: _datapath(datapath, {}))  # type: ignore[misc]
                    rows.append({"datapath": datapath, **row})
    return {"scenario": "lab_long", "warm_s": WARM_S, "rows": rows, "load": load}


def variants(preset: Preset) -> dict[str, Any]:
    """The same at 200 Mbit/s with one thing changed at a time."""
    rows = []
    with watched() as load:
        for variant in VARIANTS:
            what = scenario(RATES_MBPS[0], *variant.overrides)
            if variant.lines_bps:
                what = _in_pairs(what, variant.lines_bps)
            with _busy() if variant.busy else nullcontext():
                for name in variant.controllers:
                    row = _row(
                        preset,
                        what,
                        RATES_MBPS[0],
                        name,
                        lambda v=variant: _datapath(v.datapath, v.settings),  # type: ignore[misc]
                    )
                    rows.append({"what": variant.what, "datapath": variant.datapath, **row})
    return {"rows": rows, "load": load}


@contextmanager
def _busy() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
