# SPDX-License-Identifier: BSD-3-Clause
"""A run in numbers, every number by hand."""

import math
import re
from importlib.resources import files

import numpy as np
import pytest

from ncc.metrics.catalogue import CATALOGUE, HEADLINE, OF_REQUESTS
from ncc.metrics.fct import ideal_fct_s
from ncc.metrics.summary import CONTROL_PKT_BYTES, summarise
from tests.metrics.examples import epochs, flow_records, flow_table, port_records, rack


def test_every_number_by_hand() -> None:
    scenario = rack(hosts=2, duration_s=0.04)
    sizes = [100_000, 100_001, 10_000_000, 10_000_001]
    flows = flow_table([0.001] * 4, sizes)
    ideal = ideal_fct_s(scenario, flows)
    records = flow_records(
        (0.001 + ideal * [2, 3, 5, 4]).tolist(),
        timeouts=[0, 1, 0, 2],
        sent_pkts=[100, 100, 100, 100],
        retransmitted_pkts=[0, 10, 0, 10],
        ce_pkts=[40, 0, 0, 0],
    )
    ports = port_records(
        scenario,
        # 500 packets leave h0 and 500 ACKs leave r0; the hops in between carry them again and are not counted.
        tx_pkts={"h0->tor": 500, "tor->core": 480, "core->r0": 475, "r0->core": 500},
        dropped_pkts={"tor->core": 20, "core->r0": 5, "core->tor": 60},  # the last of ACKs
        dropped_data_pkts={"tor->core": 15, "core->r0": 5},
        queue_delay_sum_s={"tor->core": 0.048, "core->r0": 9.0},
    )
    # 100 epochs; flows arrive from 1 ms on and until 40 ms: epochs 2 to 40, at 0.5 + 0.25 Gbps.
    goodput = np.zeros((100, 2))
    goodput[1:40] = [0.5e9, 0.25e9]
    wait = np.linspace(0, 99e-6, 100)[:, None]
    throughput = np.full((100, 1), 1e9)
    throughput[90:] = 0  # nothing sent: these waits are no waits
    run = epochs(
        scenario, 100, goodput_bps=goodput, uplink_queue_delay_s=wait, uplink_throughput_bps=throughput, queued_bytes=1
    )
    got = summarise(scenario, flows, records, ports, run)
    assert got["slowdown_small_mean"] == pytest.approx(2)
    assert got["slowdown_medium_mean"] == pytest.approx(4)
    assert got["slowdown_medium_p50"] == pytest.approx(4)
    assert got["slowdown_medium_p95"] == pytest.approx(4.9)
    assert got["slowdown_large_p99"] == pytest.approx(4)
    assert got["slowdown_all_mean"] == pytest.approx(3.5)
    assert got["fct_mean_s"] == pytest.approx(np.mean(ideal * [2, 3, 5, 4]))
    assert got["goodput_bps"] == pytest.approx(0.75e9)
    assert got["queue_delay_mean_s"] == pytest.approx(1e-4)
    assert got["queue_delay_p99_s"] == pytest.approx(np.percentile(np.arange(90) * 1e-6, 99))
    assert got["timeouts_per_flow"] == 0.75
    assert got["loss_frac"] == 0.05, "20 of 400 data packets; ACKs do not count"
    assert got["retransmit_frac"] == 0.05
    assert got["mark_frac"] == 0.1
    # Windows of 20 ms: 2 : 1 in the first two (9/10), nothing in the others.
    assert got["jain"] == pytest.approx(0.9)
    assert got["unfinished"] == 0
    assert set(got) == set(CATALOGUE) - OF_REQUESTS


def test_a_word_has_the_bytes_of_the_contract() -> None:
    header = files("ncc.baselines").joinpath("transport.h").read_text(encoding="utf-8")
    assert re.findall(r"#define NCC_TP_SAY_BYTES (\d+)", header) == [str(CONTROL_PKT_BYTES)]


def test_words_and_credits_count_where_there_are_any() -> None:
    """1,000 words of 46 bytes, 100 of which a NIC drops, beside 9 MB of other bytes that hosts sent."""
    scenario = rack()
    flows = flow_table([0.0], [9_000_000])
    none = summarise(
        scenario, flows, flow_records([0.01], sent_pkts=[6000]), port_records(scenario), epochs(scenario, 100)
    )
    special = {key for key, metric in CATALOGUE.items() if metric.special} - OF_REQUESTS
    assert all(math.isnan(none[key]) for key in special)
    records = flow_records(
        [0.01], sent_pkts=[6000], control_bytes=[46_000], credits=[500], wasted_credits=[50], reordered_pkts=[60]
    )
    ports = port_records(
        scenario,
        tx_bytes={"h0->tor": 9_041_400},
        shaped_dropped_pkts={"h0->tor": 100, "tor->core": 7},
        trimmed_pkts={"core->r0": 30},
    )
    got = summarise(scenario, flows, records, ports, epochs(scenario, 100))
    assert got["control_frac"] == pytest.approx(41_400 / 9_041_400)
    assert got["credit_waste_frac"] == 0.1
    assert got["reorder_frac"] == 0.01
    assert got["trim_frac"] == 0.005


def test_goodput_ends_with_the_last_flow_where_that_is_earlier() -> None:
    scenario = rack(duration_s=0.1)
    flows, records = flow_table([0.0], [1_000_000]), flow_records([0.0102])
    goodput = np.zeros((100, 2))
    goodput[:11, 0] = 0.8e9
    run = epochs(scenario, 100, goodput_bps=goodput)
    got = summarise(scenario, flows, records, port_records(scenario), run)
    assert got["goodput_bps"] == pytest.approx(0.8e9)


def test_unfinished_flows_are_counted_and_stay_in() -> None:
    scenario = rack()
    flows = flow_table([0.0, 0.0], [1000, 1000])
    records = flow_records([0.001, math.nan])
    got = summarise(scenario, flows, records, port_records(scenario), epochs(scenario, 100))
    assert got["unfinished"] == 1
    assert got["fct_mean_s"] == pytest.approx((0.001 + 0.1) / 2)
    assert got["slowdown_all_mean"] == pytest.approx(0.0505 / ideal_fct_s(scenario, flows)[0])


def test_a_metric_of_nothing_is_undefined() -> None:
    scenario = rack()
    got = summarise(scenario, flow_table([], []), flow_records([]), port_records(scenario), epochs(scenario, 5))
    assert got.pop("unfinished") == 0
    assert all(math.isnan(value) for value in got.values())


def test_the_catalogue_says_how_to_write_a_number() -> None:
    goodput = CATALOGUE["goodput_bps"]
    assert goodput.text(3.2e9) == "3.200"
    assert goodput.show(3.2e9) == pytest.approx(3.2)
    assert goodput.title == "Goodput (Gbps)"
    assert CATALOGUE["loss_frac"].text(0.01) == "1.000"
    assert CATALOGUE["jain"].text(math.nan) not in ("nan", "")
    assert set(HEADLINE) <= set(CATALOGUE)
    assert len({metric.title for metric in CATALOGUE.values()}) == len(CATALOGUE)
