# SPDX-License-Identifier: BSD-3-Clause
"""Controllers in the kernel, on real TCP between namespaces: what they do, what steers them, and what they survive."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.envs.linux import layout, objects
from ncc.envs.linux.shim import Shim
from tests.linux.lab import HOST, MB, RATE_BPS, lab, limit, near, registered, sent_bps
from tests.linux.sockets import ENDLESS, settled
from tests.support.linux import KERNEL, TRAFFIC, needs

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@needs(*TRAFFIC)
@pytest.mark.parametrize("controller", objects.controllers())
def test_flows_are_delivered(controller: str) -> None:
    seen: list[np.ndarray] = []
    with lab([3 * MB, 2 * MB], controller) as run:
        assert run.run(each=lambda lab: seen.append(lab.live()))
        assert run.done().all()
        assert run.shim is not None
        run.gone(2)
        counters = run.shim.counters()
    assert (counters["started"], counters["finished"], counters["unreported"]) == (2, 2, 0)
    assert counters["late_inits"] == counters["fallbacks"] == counters["clamped"] == 0
    assert {number: int(row["delivered_bytes"]) for number, row in run.finished.items()} == {1: 3 * MB, 2: 2 * MB}
    for row in run.finished.values():
        assert row["sent_bytes"] - row["retrans_bytes"] == row["delivered_bytes"] == row["acked_bytes"]
        assert row["host"] == HOST
        assert 0 < row["min_rtt_ns"] <= row["rtt_sum_ns"] / row["rtt_samples"] < 100e6
        assert row["acks"] > 100
    windows = np.concatenate([rows["cwnd_bytes"] / rows["mss_bytes"] for rows in seen])
    assert len(windows) > 10
    assert windows.min() >= 1
    assert windows.max() < 5000  # 30 times what the bottleneck and its buffer hold
    hosts = run.shim.hosts[HOST]
    assert (hosts["weight_sum"], hosts["flows"]) == (0, 0)


@needs(*TRAFFIC)
def test_without_ecn_a_controller_meets_losses() -> None:
    with lab([ENDLESS] * 2, "newreno", ecn=False, mark_bytes=0, buffer_bytes=30_000) as run:
        run.run(1.5)
        rows = run.live()
    assert (rows["recoveries"] + rows["timeouts"] > 0).all()
    assert rows["lost_bytes"].sum() > 0
    assert rows["marked_bytes"].sum() == 0
    assert rows["delivered_bytes"].sum() * 8 / 1.5 > 0.6 * RATE_BPS


@needs(*TRAFFIC)
@pytest.mark.parametrize("controller", ["dctcp", "bbr"])
def test_a_host_keeps_to_its_limit(controller: str) -> None:
    """One sends by a window, the other by a rate."""
    with lab([ENDLESS] * 4, controller) as run:
        limit(run, 80e6)
        run.run(0.3)
        assert near(run, 80e6) == pytest.approx(80e6, rel=0.05)
        rows = run.live()
        assert (rows["decision"] == 1).all()
        assert (rows["decided_ns"] > 0).all()
        limit(run, 40e6)
        run.run(0.1)
        assert near(run, 40e6) == pytest.approx(40e6, rel=0.05)
        limit(run, np.inf)
        run.run(0.1)
        assert sent_bps(run, 0.5) > 120e6


@needs(*TRAFFIC)
def test_a_window_is_held_until_the_network_is_congested() -> None:
    held = 50 * MB
    with lab([ENDLESS], "dctcp", mark_bytes=0, buffer_bytes=20 * MB) as run:
        assert run.shim is not None
        for bytes_, lasts in ((held, True), (0, False), (held, True)):
            run.shim.hold(np.array([bytes_]))
            run.run(0.1)
            assert (run.live()["cwnd_bytes"][0] >= held) == lasts
        run.run(0.3, beat=False)
        assert run.live()["cwnd_bytes"][0] < held
    with lab([ENDLESS], "dctcp") as run:
        assert run.shim is not None
        run.run(0.3)
        assert run.live()["marked_bytes"][0] > 0
        run.shim.hold(np.array([held]))
        run.run(0.1)
        assert run.live()["cwnd_bytes"][0] < held


@needs(*TRAFFIC)
def test_a_limit_is_split_by_weight() -> None:
    with lab([ENDLESS] * 3, "dctcp") as run:
        limit(run, 100e6)
        run.run(0.2)
        run.decide(1, weight=6)
        run.decide(3, weight=3)  # flow 2 has what every flow begins with, 1
        run.run(0.1)

        def shares() -> FloatArray:
            before = run.live()["sent_bytes"].astype(float)
            run.run(1.0)
            sent: FloatArray = run.live()["sent_bytes"] - before
            split: FloatArray = sent / sent.sum()
            return split

        expected = pytest.approx(np.array([0.6, 0.1, 0.3]), rel=0.15)
        assert settled(shares, lambda got: got == expected) == expected


@needs(*TRAFFIC)
def test_what_one_flow_does_not_use_goes_to_the_others() -> None:
    """A flow that its own pacing holds back leaves most of its share: 100 Mbit/s for two, and one takes 10."""

    with lab([ENDLESS] * 2, "dctcp") as run:
        limit(run, 100e6)
        run.run(0.2)
        run.decide(1, pacing_bytes_per_s=10e6 / 8)
        run.run(0.3)

        def sent_bits() -> FloatArray:
            before = run.live()["sent_bytes"].astype(float)
            run.run(1.0)
            sent: FloatArray = (run.live()["sent_bytes"] - before) * 8
            return sent

        held, free = settled(sent_bits, lambda got: bool(got[1] > 75e6))
    assert held == pytest.approx(10e6, rel=0.15)
    assert 75e6 < free < 92e6


@needs(*TRAFFIC)
def test_before_the_first_beat_nobody_obeys_and_nobody_falls_back() -> None:
    with lab([10 * MB], "dctcp") as run:
        limit(run, 5e6)
        assert run.run(10.0, beat=False)
        assert run.done().all()
        assert run.shim is not None
        assert run.shim.counters()["fallbacks"] == 0


@needs(*TRAFFIC)
def test_an_override_holds_for_the_connection_it_was_meant_for() -> None:
    with lab([ENDLESS], "newreno") as run:
        run.run(0.3)
        run.decide(1, 1, cwnd_bytes=2 * 1460)  # for the one before it
        run.run(0.3)
        assert run.live()["cwnd_bytes"][0] > 4 * run.live()["mss_bytes"][0]
        run.decide(1, cwnd_bytes=2 * 1460)
        run.run(0.3)
        assert run.live()["cwnd_bytes"][0] == 2 * run.live()["mss_bytes"][0]


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
