# SPDX-License-Identifier: BSD-3-Clause
"""Parts of the report on a rack of hosts: deadlines, limits and parity."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ncc.core.errors import DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import parts
from ncc.core.scenario import Scenario, scenario_from_dict
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.harness.controller import Controller
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.metrics.bounds import LOWEST, bound_summary
from ncc.metrics.fairness import jain_index
from ncc.metrics.stats import gap_closed, interval
from ncc.metrics.summary import host_ports, summarise
from ncc.run.compose import composed, load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.linux.patience import patiently

WARM_S = 0.5
"""Beginning of each run that figures leave out."""
GOAL_FRAC = 0.05
PART_FRAC, SWING_FRAC = 0.9, 0.05
"""Share of a fair share, headers included, around which limits swing: the limit holds, not the transport."""

Row = dict[str, Any]


class Swinging:
    """A limiter of slightly more and less than a fair share in turn, so that every period has a new decision."""

    def reset(self, scenario: Scenario, seed: int) -> None:
        network = scenario.network()
        share = PART_FRAC * network.uplink_capacity_bps(network.neighbourhoods[0]) / scenario.n_agents
        self._limits = [np.full(scenario.n_agents, share * (1 + sign * SWING_FRAC)) for sign in (-1, 1)]

    def decide(self, measurement: Measurement) -> FloatArray:
        return self._limits[measurement.epoch % 2]


def lab(name: str, *overrides: str) -> Scenario:
    """The scenario of configs/scenario/<name>.yaml with Hydra's overrides."""
    return scenario_from_dict(composed("evaluate", [f"scenario={name}", *overrides])["scenario"])


def controller_of(name: str, **params: int) -> Controller:
    """The controller of that name, on the stack of its policy if it has one."""
    found = LimiterFactory(None).resolved(load_controller(name))
    return found.replace(stack=found.stack.replace(params=(*found.stack.params, *params.items()))) if params else found


def deciders(scenario: Scenario) -> dict[str, tuple[Controller, Callable[[], RateLimiter]]]:
    """The trained policy, and a rule without cost; both run over DCTCP with the policy's order."""
    policy = controller_of("trained")
    return {
        "policy": (policy, lambda: LimiterFactory(None)(policy, scenario)),
        "rule": (controller_of("dctcp").replace(stack=policy.stack), Swinging),
    }


def run_of(datapath: str, scenario: Scenario, controller: Controller, limiter: RateLimiter, seed: int) -> Run:
    """The run that an evaluation would do for that seed."""
    with closing(load_datapath(datapath).load()()) as opened:
        flow_seed = eval_flow_seed(seed)
        return patiently(lambda: run_once(opened, scenario, controller, limiter, seed, flow_seed=flow_seed))


def steps(scenario: Scenario, controller: Controller, limiter: RateLimiter, seed: int) -> Iterator[LinuxDatapath]:
    """The datapath after each period, and once it has ended."""
    limiter.reset(scenario, seed)
    with closing(LinuxDatapath.configured(load_datapath("linux").settings, "datapath.linux.settings")()) as datapath:
        flows = scenario.flows(eval_flow_seed(seed))
        now = patiently(lambda: datapath.start(scenario, flows, controller.stack, seed))
        while now.time_s < scenario.duration_s - 1e-9:
            now = datapath.step(parts(limiter.decide(now))[0])
            yield datapath
        datapath.finish()
        yield datapath


def spread(values: ArrayLike, digits: int = 3) -> str:
    """The mean with its 95 % bootstrap interval."""
    found = interval(values)
    return f"{found.estimate:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def deadlines(*, quick: bool) -> Iterator[Row]:
    """Missed periods, lateness and the agent's CPU with 16 hosts and 256 flows, a decision every millisecond."""
    scenario = lab("lab_many", f"scenario.duration_s={5 if quick else 60}")
    for name, (controller, limiter) in deciders(scenario).items():
        for seed in range(1, 2 if quick else 3):
            facts: Mapping[str, Any] = {}
            for datapath in steps(scenario, controller, limiter(), seed):
                facts = dict(datapath.facts)
            late = {f"late {name} (us)": value for name, value in facts["late_us"].items()}
            missed, periods = facts["missed_periods"], facts["periods"]
            cpu = {"CPU (%)": f"{100 * facts['agent_cpu_frac']:.1f}", "fallbacks": facts["shim"]["fallbacks"]}
            yield {"decides": name, "periods": periods, "missed (%)": f"{100 * missed / periods:.3f}", **late, **cpu}


def rates(*, quick: bool) -> Iterator[Row]:
    """Rates that hosts sent over their limits, for long flows and for an incast."""
    for case, flows in (("lab_long", 4), ("lab_long", 16), ("lab_incast", None)):
        scenario = lab(case, *([] if flows is None else [f"scenario.workload.long.flows={flows}"]))
        for name, (controller, limiter) in deciders(scenario).items():
            for datapath in ("linux", "packetsim"):
                seeds = range(1, 3 if quick else 6)
                runs = [run_of(datapath, scenario, controller, limiter(), seed) for seed in seeds]
                hosts = sent_over_allowed(runs)
                within = f"{100 * np.mean(np.abs(hosts - 1) <= GOAL_FRAC):.0f}"
                span = f"{hosts.min():.3f} to {hosts.max():.3f}"
                row = {"case": case, "flows": flows or "", "decides": name, "datapath": datapath}
                yield row | {"sent over allowed": spread(hosts), "hosts": span, "hosts within 5 % (%)": within}


def sent_over_allowed(runs: Iterable[Run]) -> FloatArray:
    """Rates over limits, a number for each host and valid run, in periods with a finite limit and payload waiting.

    Raises:
        DatapathError: there is no host with such a period.
    """
    found: list[float] = []
    for run in runs:
        after = run.epochs.time_s > WARM_S
        passed_s = np.diff(run.epochs.time_s, prepend=0.0)[after, None]
        limit, sent, waits = (
            np.asarray(run.epochs.columns[name])[after] for name in ("rate_limit_bps", "throughput_bps", "queued_bytes")
        )
        counts = (waits > 0) & np.isfinite(limit) & run.valid
        allowed, sent = np.where(counts, limit, 0.0) * passed_s, np.where(counts, sent, 0.0) * passed_s
        limited = allowed.sum(axis=0) > 0
        found += (sent.sum(axis=0)[limited] / allowed.sum(axis=0)[limited]).tolist()
    if not found:
        raise DatapathError("No host of a valid run had a finite limit and payload waiting; choose longer runs.")
    return np.array(found)


def parity(*, quick: bool) -> Iterator[Row]:
    """One port shared by four long flows, on the kernel and on both simulators."""
    for rate_mbps in (200, 500):
        scenario = lab("lab_long", f"scenario.topology.rate_bps={rate_mbps * 1e6:g}")
        for name in ("dctcp", "cubic", "gemini"):
            controller = controller_of(name, **({"capacity_mbps": rate_mbps} if name == "gemini" else {}))
            limiter = LimiterFactory(None)(controller, scenario)
            for datapath in ("linux", "packetsim", "ns3"):
                seeds = range(1, 3 if quick else 6)
                figures = [figures_of(run_of(datapath, scenario, controller, limiter, seed)) for seed in seeds]
                row: Row = {"Mbit/s": rate_mbps, "controller": name, "datapath": datapath}
                yield row | {figure: spread([one[figure] for one in figures], 2) for figure in figures[0]}


def figures_of(run: Run) -> dict[str, float]:
    """Figures of one run after `WARM_S`; retransmissions, RTTs and ACKs are those of all of it."""
    at = run.epochs.time_s > WARM_S
    columns = {name: np.asarray(column)[at] for name, column in run.epochs.columns.items()}
    # Rates are over the time that passed, which is longer than a period where one was missed.
    passed_s = np.diff(run.epochs.time_s, prepend=0.0)[at]
    sent_bits = float(columns["uplink_throughput_bps"][:, 0] @ passed_s)
    flows, ports, network = run.records.flows, run.records.ports, run.scenario.network()
    ends = [node for link in network.links for node in (link.a, link.b)]
    receivers = [port for port in host_ports(network) if ends[port] not in network.agent_hosts]
    marked_bits = 8 * run.scenario.transport.mtu_bytes * float(columns["uplink_marked_pkts"].sum())
    return {
        "goodput (Mbit/s)": float(columns["goodput_bps"].sum(axis=1) @ passed_s / passed_s.sum()) / 1e6,
        "mean queue (KB)": float(columns["uplink_queue_mean_bytes"][:, 0] @ passed_s / passed_s.sum()) / 1e3,
        "marked (%)": 100 * marked_bits / sent_bits,
        "retransmitted (%)": 100 * float(flows.retransmitted_pkts.sum()) / float(flows.sent_pkts.sum()),
        "mean RTT (us)": 1e6 * float(np.nanmean(flows.rtt_mean_s)),
        "ACKs per packet": float(ports.tx_pkts[receivers].sum()) / float(flows.sent_pkts.sum()),
        "Jain index": float(jain_index(columns["goodput_bps"].mean(axis=0))),
    }


def told(*, quick: bool) -> Iterator[Row]:
    """NCC on an uplink where applications announce sizes: its mean FCT between DCTCP's and the SRPT bound."""
    policy, dctcp = controller_of("trained"), controller_of("dctcp")
    policy = policy.replace(stack=policy.stack.replace(order="srpt", order_params=()))
    seeds = range(2 if quick else 10)
    for load_frac in (0.6, 0.8):
        overrides = ("scenario.duration_s=4", "scenario.drain_s=4", f"scenario.workload.flows.load_frac={load_frac}")
        scenario = lab("lab_uplink", *overrides)
        bound_s = [bound_summary(scenario, eval_flow_seed(seed), LOWEST)["fct_mean_s"] for seed in seeds]
        for datapath in ("linux", "packetsim"):
            means_s = list[list[float]]()
            for controller in (policy, dctcp):
                limiter = LimiterFactory(None)(controller, scenario)
                runs = [run_of(datapath, scenario, controller, limiter, seed) for seed in seeds]
                means_s.append([mean_fct_s(run) if run.valid else np.nan for run in runs])
            row: Row = {"load (%)": round(100 * load_frac), "datapath": datapath}
            for name, means in zip(("NCC", "DCTCP", "SRPT bound"), (*means_s, bound_s), strict=True):
                row[f"{name} (ms)"] = spread(1e3 * np.array(means), 1)
            way = gap_closed(means_s[0], means_s[1], bound_s)
            yield row | {"of the way": f"{way.estimate:.2f} [{way.low:.2f}, {way.high:.2f}], {way.n} seeds"}


def mean_fct_s(run: Run) -> float:
    """Mean FCT of a run in seconds."""
    records = run.records
    return summarise(run.scenario, run.flows, records.flows, records.ports, run.epochs)["fct_mean_s"]
