# SPDX-License-Identifier: BSD-3-Clause
"""Controllers in the kernel, on real TCP between namespaces: what they do, what steers them, and what they survive."""

import mmap
import time
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.units import NS_PER_S
from ncc.envs.linux import layout, objects
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from tests.linux.lab import HOST, MB, bottleneck, lab, registered
from tests.linux.rates import check_limit, exceeds
from tests.linux.sockets import ENDLESS
from tests.support.linux import KERNEL, TRAFFIC, needs
from tests.support.processes import eventually

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@needs(*TRAFFIC)
@pytest.mark.parametrize("controller", objects.controllers())
def test_flows_are_delivered(controller: str, rack: Rack) -> None:
    seen: list[np.ndarray] = []
    began = time.monotonic()
    with lab([3 * MB, 2 * MB], controller, rack=rack) as run:
        assert run.run(each=lambda lab: seen.append(lab.live()))
        assert run.done().all()
        assert run.shim is not None
        run.gone(2)
        counters = run.shim.counters()
    took_ns = (time.monotonic() - began) * NS_PER_S
    assert (counters["started"], counters["finished"], counters["unreported"]) == (2, 2, 0)
    assert counters["late_inits"] == counters["fallbacks"] == counters["clamped"] == 0
    assert {number: int(row["delivered_bytes"]) for number, row in run.finished.items()} == {1: 3 * MB, 2: 2 * MB}
    for row in run.finished.values():
        assert row["sent_bytes"] - row["retrans_bytes"] == row["delivered_bytes"] == row["acked_bytes"]
        assert row["host"] == HOST
        assert 0 < row["min_rtt_ns"] <= row["rtt_sum_ns"] / row["rtt_samples"] < took_ns
        assert row["acks"] > 100
    windows = [rows["cwnd_bytes"] / rows["mss_bytes"] for rows in (*seen, np.array(list(run.finished.values())))]
    assert np.concatenate(windows).min() >= 1
    assert np.concatenate(windows).max() < 5000  # 30 times what the bottleneck and its buffer hold
    hosts = run.shim.hosts[HOST]
    assert (hosts["weight_sum"], hosts["flows"]) == (0, 0)


@needs(*TRAFFIC)
def test_without_ecn_a_controller_meets_losses() -> None:
    with (
        Rack(bottleneck(mark_bytes=0, buffer_bytes=30_000)) as rack,
        lab([3 * MB] * 2, "newreno", rack=rack, ecn=False) as run,
    ):
        assert run.run()
        assert run.done().all()
        run.gone(2)
    rows = np.array(list(run.finished.values()))
    assert (rows["recoveries"] + rows["timeouts"] > 0).all()
    assert (rows["lost_bytes"] > 0).all()
    assert rows["marked_bytes"].sum() == 0


@needs(*TRAFFIC)
@pytest.mark.parametrize("controller", ["dctcp", "bbr"])
def test_a_flow_keeps_to_its_host_s_limit(controller: str, rack: Rack) -> None:
    """One sends by a window, the other by a rate."""
    with lab([ENDLESS], controller, rack=rack) as run:
        for rate_bps in (20e6, 10e6):
            run.limit(rate_bps)
            check_limit(run.count, rate_bps)
        assert (run.live()["decided_ns"] > 0).all()
        run.limit(np.inf)
        assert exceeds(run.count, 40e6)


@needs(*TRAFFIC)
def test_a_window_is_held_until_the_network_is_congested() -> None:
    held = 50 * MB
    with Rack(bottleneck(mark_bytes=0, buffer_bytes=20 * MB)) as rack, lab([ENDLESS], "dctcp", rack=rack) as run:
        assert run.shim is not None
        for bytes_, lasts in ((held, True), (0, False), (held, True)):
            run.shim.hold(np.array([bytes_]))
            run.limit(np.inf)
            assert eventually(lambda: (run.live()["cwnd_bytes"][0] >= held) == lasts)  # noqa: B023 - called at once
        run.shim.agent["timeout_ns"] = 0
        assert eventually(lambda: run.live()["cwnd_bytes"][0] < held)


@needs(*TRAFFIC)
def test_a_congested_network_ends_it(rack: Rack) -> None:
    held = 50 * MB
    with lab([ENDLESS], "dctcp", rack=rack) as run:
        assert run.shim is not None
        assert eventually(lambda: run.live()["marked_bytes"].sum() > 0)
        run.shim.hold(np.array([held]))
        run.limit(np.inf)
        assert run.live()["cwnd_bytes"][0] < held


@needs(*TRAFFIC)
def test_a_limit_is_split_by_weight_and_changes_at_once(rack: Rack) -> None:
    with lab([ENDLESS] * 3, "dctcp", rack=rack) as run:
        run.limit(60e6)
        assert eventually(lambda: run.paced_bps() == pytest.approx(np.full(3, 20e6), rel=0.01))
        run.decide(1, weight=6)
        run.decide(3, weight=3)  # flow 2 has what every flow begins with, 1
        for rate_bps in (60e6, 30e6):
            run.limit(rate_bps)
            shares_bps = pytest.approx(rate_bps * np.array([0.6, 0.1, 0.3]), rel=0.01)
            assert eventually(lambda: run.paced_bps() == shares_bps)  # noqa: B023 - called at once


@needs(*TRAFFIC)
def test_what_one_flow_does_not_use_goes_to_the_others(rack: Rack) -> None:
    """A flow that its own pacing holds back leaves most of its share: 50 Mbit/s for two, and one takes 5 or less."""
    with lab([ENDLESS] * 2, "dctcp", rack=rack) as run:
        run.limit(50e6)
        run.decide(1, pacing_bytes_per_s=5e6 / 8)

        def shared() -> bool:
            held_bps, free_bps = run.paced_bps()
            return bool(held_bps == pytest.approx(5e6 * 1500 / 1460, rel=0.01) and 42e6 < free_bps < 48e6)

        assert eventually(shared)


@needs(*TRAFFIC)
def test_before_the_first_beat_nobody_obeys_and_nobody_falls_back(rack: Rack) -> None:
    """With its limit it would take two minutes."""
    with lab([3 * MB], "dctcp", rack=rack) as run:
        assert run.shim is not None
        run.shim.limit(np.array([2e5]))
        assert run.run()
        run.gone(1)
        assert run.done().all()
        assert run.finished[1]["decision"] == 0
        assert run.shim.counters()["fallbacks"] == 0


@needs(*TRAFFIC)
def test_an_override_holds_for_the_connection_it_was_meant_for(rack: Rack) -> None:
    def window_pkts() -> int:
        return int(run.live()["cwnd_bytes"][0] // run.live()["mss_bytes"][0])

    with lab([ENDLESS], "newreno", rack=rack) as run:
        assert eventually(lambda: run.live()["marked_bytes"].sum() > 0)
        run.decide(1, 1, cwnd_bytes=2 * 1460)  # for the one before it
        run.limit(np.inf)
        assert window_pkts() > 4
        run.decide(1, cwnd_bytes=2 * 1460)
        assert eventually(lambda: window_pkts() == 2)


@needs(*KERNEL)
def test_a_controller_is_registered_once_and_goes_with_its_shim() -> None:
    with registered("vegas", timeout_s=1.0) as shim:
        assert shim.name in AVAILABLE.read_text().split()
        for controller, name in (("vegas", None), ("cubic", "cubic")):  # another shim's, the kernel's own
            said = (
                f"control {name or shim.name} cannot be registered, because the kernel or another process has .*--name"
            )
            with pytest.raises(DatapathError, match=said):
                Shim(controller, timeout_s=1.0, name=name)
        assert shim.name in AVAILABLE.read_text().split()
    assert shim.name not in AVAILABLE.read_text().split()
    shim.close()
    with pytest.raises(DatapathError, match="is closed"):
        shim.add_host(0, "10.0.0.1", 1)


@needs(*KERNEL)
def test_the_controller_gets_its_parameters() -> None:
    with registered("dctcp", [("g_shift", 7)], timeout_s=1.0) as shim:
        fd, *_ = shim._object.shape(".rodata.params")
        with mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ) as section:
            row = np.frombuffer(section[: layout.PARAMS.itemsize], layout.PARAMS)
    assert row["values"][0, :2].tolist() == [7, 1024]


@needs("objects")
def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Shim\.timeout_s must be a positive number of seconds, got 0"):
        Shim("dctcp", timeout_s=0)
    with pytest.raises(ConfigError, match=r"timeout_s .* nan"):
        Shim("dctcp", timeout_s=float("nan"))
    with pytest.raises(UnknownNameError, match="controller in the kernel 'toggle'"):
        Shim("toggle", timeout_s=1.0)
    with pytest.raises(UnknownNameError, match="parameter of dctcp 'h'"):
        Shim("dctcp", [("h", 1)], timeout_s=1.0)
    with pytest.raises(ConfigError, match="Parameter g_shift of dctcp must be from 1 to 10, got 11"):
        Shim("dctcp", [("g_shift", 11)], timeout_s=1.0)


@needs(*KERNEL)
def test_decisions_that_cannot_be_never_reach_the_kernel() -> None:
    with registered("newreno", timeout_s=1.0) as shim:
        shim.limit(np.array([8e6, np.inf, 1e300]))
        assert shim.hosts["rate_bytes_per_s"][:3].tolist() == [10**6, 0, 2**40]
        for bad in (np.nan, 0.0, -1.0, -np.inf):
            with pytest.raises(ConfigError, match=r"The limit of host 1 must be above 0 bit/s"):
                shim.limit(np.array([8e6, bad]))
        assert shim.hosts["rate_bytes_per_s"][:3].tolist() == [10**6, 0, 2**40]
        assert shim.hosts["decision"][:4].tolist() == [1, 1, 1, 0]
        with pytest.raises(ConfigError, match="index must be from 0 to 255, got 256"):
            shim.add_host(256, "10.0.0.1", 1)
        with pytest.raises(ConfigError, match="must be an IPv4 address, got 'fe80::1'"):
            shim.add_host(0, "fe80::1", 1)
        assert shim.counters() == dict.fromkeys(layout.COUNTERS, 0)
