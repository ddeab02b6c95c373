# SPDX-License-Identifier: BSD-3-Clause
"""A run's metrics: one flat dict with the keys of `ncc.metrics.catalogue`."""

import numpy as np

from ncc.core.flows import BoolArray, FloatArray, FlowRecords, FlowTable, PortRecords
from ncc.core.measurement import Epochs
from ncc.core.scenario import Scenario
from ncc.core.topology import NodeKind, Topology
from ncc.core.workload import endless
from ncc.metrics.catalogue import CATALOGUE, OF_REQUESTS
from ncc.metrics.fairness import windowed_jain
from ncc.metrics.fct import fct_s, fct_slowdown
from ncc.metrics.requests import ideal_qct_s, qct_s, timeout_frac

SMALL_BYTES = 100_000
LARGE_BYTES = 10_000_000
CONTROL_PKT_BYTES = 46
"""IP packet that controls a message transport (`NCC_TP_SAY_BYTES` of transport.h)."""
NAN = float("nan")


def buckets(flows: FlowTable) -> dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Masks [n_flows] by name: small <= 100 KB < medium <= 10 MB < large (bai2020, zeng2022), and all."""
    size = flows.size_bytes
    return {
        "all": size > 0,
        "small": size <= SMALL_BYTES,
        "medium": (size > SMALL_BYTES) & (size <= LARGE_BYTES),
        "large": size > LARGE_BYTES,
    }


def summarise(
    scenario: Scenario, flows: FlowTable, records: FlowRecords, ports: PortRecords, epochs: Epochs
) -> dict[str, float]:
    """Compute the metrics of one run; every metric of the catalogue has a value, those of requests if it has some.

    A metric without data (no flows of that size, no packets) is NaN.

    An unfinished flow counts in FCT and slowdown with its time so far, a lower bound: leaving it out would reward
    starving it. A flow of requests that never started counts in neither, as it has no time, and a request of which no
    flow started does not count. `unfinished` is the number of flows of both kinds. Flows of endless traffic have no
    completion time; they count neither in FCT and slowdown nor in `unfinished`.

    Keys:
        slowdown_{all,small,medium,large}_{mean,p50,p95,p99}: FCT / ideal FCT (`ncc.metrics.fct`), by size of flow.
        fct_mean_s, fct_p99_s: mean and 99th percentile over all flows.
        goodput_bps: payload acknowledged to all agent hosts per second, over the periods that overlap
            [first arrival, min(duration_s, last finish)); with requests, which may begin after duration_s,
            [first arrival, last finish).
        queue_delay_mean_s: wait in the uplink ports' queues, mean over the packets that they sent.
        queue_delay_p99_s: 99th percentile over periods and uplinks of the period's mean wait, periods without a packet
            left out.
        timeouts_per_flow: retransmission timeouts / flows.
        loss_frac: data packets dropped at any port / data packets sent.
        retransmit_frac: retransmissions / data packets sent.
        mark_frac: data packets that arrived with Congestion Experienced / data packets sent.
        trim_frac: data packets that ports trimmed / data packets sent; NaN if there is none.
        reorder_frac: data packets that arrived, not sent again, after one sent later / data packets sent; NaN without
            a message transport.
        control_frac: bytes of a message transport's control packets / bytes that hosts sent, IP packets; else NaN.
        credit_waste_frac: credits, grants and pulls that released no packet / those that reached senders; else NaN.
        jain: `ncc.metrics.fairness.windowed_jain`.
        unfinished: flows without every byte delivered.
        qct_{mean,p50,p99,p999}_s: query completion times (`ncc.metrics.requests`); unfinished ones count so far.
        qct_slowdown_mean: QCT / ideal QCT.
        qct_timeout_frac: requests in which a flow has a retransmission timeout / requests that began.
    """
    network = scenario.network()
    until_s = float(epochs.time_s[-1])
    ends = ~endless(scenario.workload, flows)
    slowdown = fct_slowdown(scenario, flows, records, until_s)
    out = fct_summary(flows, fct_s(flows, records, until_s), slowdown, ends & ~np.isnan(flows.start_s))
    out["goodput_bps"] = _goodput_bps(scenario, flows, records, epochs)
    uplink = [area.uplink_port for area in network.neighbourhoods]
    out["queue_delay_mean_s"] = _ratio(ports.queue_delay_sum_s[uplink].sum(), ports.tx_pkts[uplink].sum())
    busy = epochs.columns["uplink_throughput_bps"] > 0
    out["queue_delay_p99_s"] = _spread(epochs.columns["uplink_queue_delay_s"][busy].astype(np.float64))["p99"]
    out["timeouts_per_flow"] = _ratio(records.timeouts.sum(), len(flows))
    out["loss_frac"] = _ratio(ports.dropped_data_pkts.sum(), records.sent_pkts.sum())
    out["retransmit_frac"] = _ratio(records.retransmitted_pkts.sum(), records.sent_pkts.sum())
    out["mark_frac"] = _ratio(records.ce_pkts.sum(), records.sent_pkts.sum())
    trimmed, control_bytes, granted = ports.trimmed_pkts.sum(), records.control_bytes.sum(), records.credits.sum()
    if trimmed > 0:
        out["trim_frac"] = _ratio(trimmed, records.sent_pkts.sum())
    if control_bytes > 0:
        hosts = host_ports(network)
        gone_bytes = CONTROL_PKT_BYTES * ports.shaped_dropped_pkts[hosts].sum()  # which never left
        out["reorder_frac"] = _ratio(records.reordered_pkts.sum(), records.sent_pkts.sum())
        out["control_frac"] = _ratio(control_bytes - gone_bytes, ports.tx_bytes[hosts].sum())
    if granted > 0:
        out["credit_waste_frac"] = _ratio(records.wasted_credits.sum(), granted)
    out["jain"] = windowed_jain(scenario, epochs)
    out["unfinished"] = float((np.isnan(records.finish_s) & ends).sum())
    out |= _requests_summary(scenario, flows, records, until_s)
    return {name: out.get(name, NAN) for name in CATALOGUE if name in out or name not in OF_REQUESTS}


def _requests_summary(scenario: Scenario, flows: FlowTable, records: FlowRecords, until_s: float) -> dict[str, float]:
    if flows.graph is None:
        return {}
    took_s = qct_s(flows, records, until_s)
    asked = ~np.isnan(took_s)
    slowdown = took_s[asked] / ideal_qct_s(scenario, flows)[asked]
    of_time = _spread(took_s[asked])
    return {
        **{f"qct_{point}_s": of_time[point] for point in ("mean", "p50", "p99")},
        "qct_p999_s": float(np.percentile(took_s[asked], 99.9)) if asked.any() else NAN,
        "qct_slowdown_mean": _spread(slowdown)["mean"],
        "qct_timeout_frac": timeout_frac(flows, records),
    }


def fct_summary(
    flows: FlowTable, took_s: FloatArray, slowdown: FloatArray, ends: BoolArray | None = None
) -> dict[str, float]:
    """Compute the metrics of `summarise` that come from completion times.

    Args:
        took_s: completion times in seconds [n_flows].
        slowdown: completion times divided by ideal ones [n_flows].
        ends: mask [n_flows] of the flows that count; None: all.
    """
    counted = np.ones(len(flows), dtype=np.bool_) if ends is None else ends
    out: dict[str, float] = {}
    for name, mask in buckets(flows).items():
        out |= {f"slowdown_{name}_{key}": value for key, value in _spread(slowdown[mask & counted]).items()}
    fct = _spread(took_s[counted])
    return out | {"fct_mean_s": fct["mean"], "fct_p99_s": fct["p99"]}


def _goodput_bps(scenario: Scenario, flows: FlowTable, records: FlowRecords, epochs: Epochs) -> float:
    if not len(flows):
        return NAN
    end_s = scenario.duration_s if flows.graph is None else float(epochs.time_s[-1])
    if not np.isnan(records.finish_s).any():
        end_s = min(end_s, records.finish_s.max())
    # A nanosecond of tolerance keeps rounding from adding a period that only touches the interval.
    overlaps = (epochs.time_s > np.nanmin(flows.start_s) + 1e-9) & (epochs.time_s - scenario.period_s < end_s - 1e-9)
    goodput = epochs.columns["goodput_bps"][overlaps & (epochs.time_s > 0)]
    return float(goodput.sum(axis=1).mean()) if len(goodput) else NAN


def host_ports(network: Topology) -> list[int]:
    """Ports that transmit from a host, where packets enter the network."""
    ends = [node for link in network.links for node in (link.a, link.b)]
    return [port for port, node in enumerate(ends) if network.nodes[node].kind is NodeKind.HOST]


def _spread(values: FloatArray) -> dict[str, float]:
    """Mean and percentiles (linear interpolation); NaN without values."""
    if not len(values):
        return {"mean": NAN, "p50": NAN, "p95": NAN, "p99": NAN}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"mean": float(np.mean(values)), "p50": float(p50), "p95": float(p95), "p99": float(p99)}


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else NAN
