# SPDX-License-Identifier: BSD-3-Clause
"""Decisions every millisecond for 16 hosts and 256 flows: are they in time, what do they cost, and when do they act?"""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray, IntArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.units import NS_PER_S
from ncc.envs.linux import layout, machine
from ncc.envs.linux.decide import hastened
from ncc.envs.linux.run import LATE_QUANTILES
from ncc.envs.linux.shim import Shim
from ncc.harness.controller import Controller
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import eval_flow_seed
from ncc.host.runs import Preset, contender, lab, linux, patiently, watched
from ncc.limiters import LimiterFactory

US_PER_NS = 1e-3
PERIOD_S = 1e-3
PART = 0.9
"""Of the fair share, payload and headers together, around which limits swing: the limit holds, not the transport."""
SWING = 0.05


class Swinging:
    """A fair share of the port, a little more and a little less in turn: every period has a decision of its own."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        share = PART * network.upper_capacity_bps(network.neighbourhoods[0]) / scenario.n_agents
        self._limits = [np.full(scenario.n_agents, share * (1 + sign * SWING)) for sign in (-1, 1)]

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits[measurement.epoch % 2]


class Timed:
    """Another limiter, and what it takes of its thread."""

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter, self.cpu_ns = limiter, 0

    def reset(self, scenario: Scenario, seed: int) -> None:
        self._limiter.reset(scenario, seed)

    def decide(self, measurement: Measurement) -> FloatArray:
        before = time.thread_time_ns()
        limits = self._limiter.decide(measurement)
        self.cpu_ns += time.thread_time_ns() - before
        return limits


def deciders() -> dict[str, Controller]:
    """Who decides, by name: the trained policy, and a rule that costs nothing, both over DCTCP."""
    return {"policy": contender("ncc"), "rule": contender("dctcp")}


def deadlines(preset: Preset) -> dict[str, Any]:
    """Missed periods, lateness and the agent's CPU, for each who decides, several times."""
    scenario = lab("lab_many", f"scenario.duration_s={preset.hold_s}")
    rows = []
    for name, controller in deciders().items():
        for seed in range(1, preset.holds + 1):
            decides = LimiterFactory(None)(controller, scenario) if name == "policy" else Swinging()
            limiter = Timed(hastened(decides))
            with watched() as load:
                facts = _hold(scenario, controller, limiter, seed)
            rows.append({"decides": name, "seed": seed, **facts, "load": load})
    return {"scenario": scenario.name, "hosts": scenario.n_agents, "flows": 256, "rows": rows}


def timer(preset: Preset) -> dict[str, Any]:
    """The same loop with nothing to do and no traffic: what the machine itself makes late."""
    own, _ = machine.split_cores()
    cores, first = machine.Cores(own), machine.Realtime()
    with watched() as load, ExitStack() as undo:
        undo.callback(os.close, patiently(machine.take_machine))
        undo.callback(cores.leave)
        undo.callback(first.leave)
        cores.enter()
        first.enter()
        late_ns = np.zeros(round(preset.hold_s / PERIOD_S), np.int64)
        began_ns, stolen, waited_s = time.monotonic_ns(), _stolen_ticks(), machine.waited_s()
        for i in range(len(late_ns)):
            end_ns = began_ns + round((i + 1) * PERIOD_S * NS_PER_S)
            while (left_ns := end_ns - time.monotonic_ns()) > 0:
                time.sleep(left_ns / NS_PER_S)
            late_ns[i] = time.monotonic_ns() - end_ns
        stolen, waited_s = _stolen_ticks() - stolen, machine.waited_s() - waited_s
    late_us = late_ns * US_PER_NS
    return {
        "periods": len(late_ns),
        "late": int((late_ns > PERIOD_S * NS_PER_S).sum()),
        "late_us": {name: round(float(np.quantile(late_us, q)), 1) for name, q in LATE_QUANTILES.items()},
        "waited_s": round(waited_s, 6),
        "stolen_s": stolen / os.sysconf("SC_CLK_TCK"),
        "load": load,
    }


def _stolen_ticks() -> int:
    """Of all cores since boot, while a hypervisor ran something else."""
    with Path("/proc/stat").open() as file:
        return int(file.readline().split()[8])


def steps(scenario: Scenario, controller: Controller, limiter: RateLimiter, seed: int, **of: Any) -> Iterator[Any]:
    """The datapath after each period; nothing is kept, as an agent would."""
    limiter.reset(scenario, seed)
    with closing(linux(**of)) as datapath:
        flows = scenario.flows(eval_flow_seed(seed))
        now = patiently(lambda: datapath.start(scenario, flows, controller.stack, seed))
        while now.time_s < scenario.duration_s - 1e-9:
            now = datapath.step(limiter.decide(now))
            yield datapath
        datapath.finish()
        yield datapath


def _hold(scenario: Scenario, controller: Controller, limiter: Timed, seed: int) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for datapath in steps(scenario, controller, limiter, seed):
        facts = dict(datapath.facts)
    periods, seconds = facts["periods"], facts["periods"] * scenario.period_s
    return {
        "periods": periods,
        "missed": facts["missed_periods"],
        "missed_frac": facts["missed_periods"] / periods,
        "late_us": facts["late_us"],
        "late_periods_s": facts["late_periods_s"],
        "waited_s": facts["waited_s"],
        "cpu_frac": facts["agent_cpu_frac"],
        "decider_cpu_frac": round(limiter.cpu_ns / NS_PER_S / seconds, 4),
        "torn_reports": facts["torn_reports"],
        "shim": facts["shim"],
    }


def effect(preset: Preset) -> dict[str, Any]:
    """How long after a decision a flow obeys it, of those with an ACK in that period."""
    rows = []
    for flows in (16, 256):
        scenario = lab("lab_many", f"scenario.duration_s={preset.effect_s}", f"scenario.workload.long.flows={flows}")
        with watched() as load:
            rows.append({"flows": flows, **_effect(scenario), "load": load})
    return {"rows": rows}


def _effect(scenario: Scenario) -> dict[str, Any]:
    after_ns: list[IntArray] = []
    live = hosts = periods = 0
    for datapath in steps(scenario, contender("dctcp"), Swinging(), 1):
        if (shim := datapath.shim) is None:
            raise DatapathError("Effects of decisions can be timed of our own controllers only.")
        if datapath.facts:  # it has ended
            continue
        obeyed, ns, n = _obeyed(shim, round(scenario.period_s * NS_PER_S))
        after_ns.append(ns)
        live, hosts, periods = live + n, hosts + len(np.unique(obeyed)), periods + 1
    took_us = np.concatenate(after_ns) * US_PER_NS
    p50, p99 = np.percentile(took_us, [50, 99])
    return {
        "periods": periods,
        "effects": len(took_us),
        "p50_us": round(float(p50), 1),
        "p99_us": round(float(p99), 1),
        "flows_with_ack_frac": round(len(took_us) / live, 4),
        "hosts_with_ack_frac": round(hosts / periods / scenario.n_agents, 4),
    }


def _obeyed(shim: Shim, period_ns: int) -> tuple[IntArray, IntArray, int]:
    """Of the flows that obeyed the last decision within its period: host, and ns since it was taken; all live flows.

    The decision counts from just before it is written (the heartbeat), its effect from the program that handles an ACK.
    """
    rows = shim.reports
    before = rows["seq"].copy()
    state, host, decision, decided_ns = (rows[name].copy() for name in ("state", "host", "decision", "decided_ns"))
    whole = (before == rows["seq"]) & (before % 2 == 0) & (state == layout.LIVE)
    took = decided_ns.astype(np.int64) - int(shim.agent["beat_ns"][0])
    ours = whole & (decision == shim.hosts["decision"][0]) & (took >= 0) & (took <= period_ns)
    return host[ours].astype(np.int64), took[ours], int(whole.sum())
