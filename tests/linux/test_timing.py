# SPDX-License-Identifier: BSD-3-Clause
"""Times and rates that the datapath keeps to a few percent, on a machine without other work (make test-timing)."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from ncc.core.flows import FloatArray
from ncc.core.topology import Program
from ncc.core.units import NS_PER_S
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from ncc.envs.linux.traffic import Traffic
from tests.linux.lab import FOR_EVER_S
from tests.linux.lines import LIMIT_BPS, Line
from tests.linux.rates import Count
from tests.linux.sockets import Bulk, round_trips_s
from tests.linux.test_delay import ends, wan
from tests.linux.test_switch import DROP_TAIL, RATE_BPS, incast
from tests.linux.test_traffic import CUBIC, finish, hosts, table
from tests.support.linux import TRAFFIC, needs, wake_up_late_s
from tests.support.processes import eventually

WARM_S, FOR_S = 0.4, 1.2
GOODPUT_BPS = RATE_BPS * 1460 / 1538
"""Payload of full packets, with 38 bytes of frame beside each."""

pytestmark = [needs(*TRAFFIC), pytest.mark.timing]


def goodput_bps(run: Bulk) -> FloatArray:
    """[n_pairs] over `FOR_S`, after `WARM_S`; counters of ports are of that while."""
    time.sleep(WARM_S)
    run.mark()
    before, began = run.received_bytes(), time.monotonic()
    time.sleep(FOR_S)
    found: FloatArray = 8 * (run.received_bytes() - before) / (time.monotonic() - began)
    return found


def rate_bps(count: Callable[[], Count]) -> float:
    first = count()
    time.sleep(FOR_S)
    last = count()
    return 8e9 * (last.sent_bytes - first.sent_bytes) / (last.latest_ns - first.latest_ns)


@pytest.mark.parametrize("delay_s", [200e-6, 20e-3])
def test_a_round_trip_takes_twice_the_delay(delay_s: float) -> None:
    """The least of 60 round trips. Each wakes six sleepers: both hosts, and the program of the link twice a way."""
    with Rack(wan(delay_s)) as rack:
        least_s = round_trips_s(rack, *ends(rack), 60, gap_s=2e-3).min()
    assert 0.98 * 2 * delay_s < least_s < 1.02 * 2 * delay_s + 6 * max(50e-6, wake_up_late_s())


def test_a_host_s_queue_keeps_to_its_limit(host: Line) -> None:
    """Its rate."""
    with host.queue() as (_, made), host.sending():
        made.limit(LIMIT_BPS)
        assert rate_bps(host.count) == pytest.approx(LIMIT_BPS, rel=0.05)


def test_a_limit_ends_with_its_last_heartbeat(host: Line) -> None:
    """The time until packets leave without a limit."""
    with host.queue() as (program, made), host.sending():
        made.limit(LIMIT_BPS)
        program._config["timeout_ns"] = NS_PER_S // 2
        program.beat()
        began = time.monotonic()
        assert eventually(lambda: program.counters()["silent_pkts"])
    assert 0.49 < time.monotonic() - began < 0.6


def test_flows_begin_when_they_are_due() -> None:
    """Their lateness."""
    flows = table([0.01 * i for i in range(40)], [20_000] * 40, pairs=2)
    with hosts(2) as (_, ends), Traffic(ends, flows, flows.src, flows.dst, CUBIC) as sending:
        start_ns = time.monotonic_ns() + 5_000_000
        sending.begin(start_ns)
        finish(sending)
        late_s = (sending.flows["opened_ns"] - np.uint64(start_ns)).astype(np.int64) / 1e9 - flows.start_s
    assert late_s.min() >= 0
    assert np.median(late_s) < 2e-3 + wake_up_late_s()


def test_drop_tail_keeps_its_port_busy_and_its_buffer_full() -> None:
    """Goodput, the mean queue, and the mean wait of a packet in it."""
    with incast(DROP_TAIL) as (port, run):
        goodputs_bps = goodput_bps(run)
        mean_bytes = run.queue_mean_bytes(port)
        wait_s = run.grown(port, "queue_pkt_ns") / run.grown(port, "tx_pkts") / 1e9
    assert goodputs_bps.sum() == pytest.approx(GOODPUT_BPS, rel=0.04)
    assert mean_bytes > 180_000
    assert wait_s == pytest.approx(mean_bytes * 1538 / 1500 * 8 / RATE_BPS, rel=0.1)


@pytest.mark.parametrize("threshold_bytes", [20_000, 60_000])
def test_dctcp_keeps_its_mean_at_the_threshold(threshold_bytes: int) -> None:
    """The mean queue and goodput."""
    with Shim("dctcp", timeout_s=FOR_EVER_S) as shim:
        spec = DROP_TAIL.replace(mark_threshold_bytes=threshold_bytes)
        with incast(spec, shim.name) as (port, run):
            goodputs_bps = goodput_bps(run)
            assert run.queue_mean_bytes(port) == pytest.approx(threshold_bytes, rel=0.2)
    assert goodputs_bps.sum() == pytest.approx(GOODPUT_BPS, rel=0.05)


def test_the_queue_of_rwndq_stands_at_its_target() -> None:
    """The mean queue, which is a fifth of the buffer, and goodputs, which are equal."""
    program = Program(name="rwndq", params=(("t_ns", 1_000_000),))
    with incast(DROP_TAIL.replace(programs=(program,))) as (port, run):
        goodputs_bps = goodput_bps(run)
        assert run.queue_mean_bytes(port) == pytest.approx(60_000, rel=0.15)
    assert goodputs_bps.sum() == pytest.approx(GOODPUT_BPS, rel=0.04)
    assert goodputs_bps.sum() ** 2 / (len(goodputs_bps) * (goodputs_bps**2).sum()) > 0.995
