# SPDX-License-Identifier: BSD-3-Clause
"""Controllers in the kernel, on real TCP between namespaces: their behaviour, their decisions, and faults."""

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
from tests.linux.sockets import ENDLESS, paced_bps
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
        assert row["sent_bytes"] - row["retrans_bytes"] == row["delivered_bytes"]
        assert row["host"] == HOST
        assert 0 < row["rtt_sum_ns"] / row["rtt_samples"] < took_ns
        assert row["acks"] > 100
    windows = [rows["cwnd_bytes"] / rows["mss_bytes"] for rows in (*seen, np.array(list(run.finished.values())))]
    assert np.concatenate(windows).min() >= 1
    by_rate_alone = controller == "timely"
    assert by_rate_alone or np.concatenate(windows).max() < 5000  # 30 times what the bottleneck and its buffer hold
    hosts = run.shim.hosts[HOST]
    assert hosts["flows"] == 0


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
    assert (rows["retrans_bytes"] > 0).all()
    assert rows["marked_bytes"].sum() == 0


@needs(*TRAFFIC)
@pytest.mark.parametrize("controller", ["dctcp", "bbr"])
def test_a_flow_keeps_to_the_rate_that_it_is_told(controller: str, rack: Rack) -> None:
    """One sends by a window, the other by a rate. Before the first heartbeat neither obeys, nor falls back."""
    with lab([ENDLESS], controller, rack=rack) as run:
        assert run.shim is not None
        run.decide(1, rate_bytes_per_s=1)
        run.shim.agent["beat_ns"] = 0
        assert exceeds(run.count, 40e6)
        assert run.shim.counters()["fallbacks"] == 0
        for rate_bps in (20e6, 10e6):
            run.decide(1, rate_bytes_per_s=rate_bps / 8 * 1460 / 1500)
            assert eventually(lambda: paced_bps(rack.namespace(run.sender))[1] <= rate_bps)  # noqa: B023 - called at once
            check_limit(run.count, rate_bps)
        run.decide(1, rate_bytes_per_s=0)
        assert exceeds(run.count, 40e6)


@needs(*TRAFFIC)
def test_a_window_is_held_until_the_network_is_congested(rack: Rack) -> None:
    held = 50 * MB
    with Rack(bottleneck(mark_bytes=0, buffer_bytes=20 * MB)) as deep, lab([ENDLESS], "dctcp", rack=deep) as run:
        assert run.shim is not None
        run.beat()
        for bytes_, lasts in ((held, True), (0, False), (held, True)):
            run.shim.hold([bytes_])
            assert eventually(lambda: (run.live()["cwnd_bytes"][0] >= held) == lasts)  # noqa: B023 - called at once
        run.shim.agent["timeout_ns"] = 0
        assert eventually(lambda: run.live()["cwnd_bytes"][0] < held)
    with lab([ENDLESS], "dctcp", rack=rack) as run:
        assert run.shim is not None
        assert eventually(lambda: run.live()["marked_bytes"].sum() > 0)
        run.shim.hold([held])
        run.beat()
        acks = int(run.live()["acks"][0])
        assert eventually(lambda: run.live()["acks"][0] > acks + 100)
        assert run.live()["cwnd_bytes"][0] < held


@needs(*TRAFFIC)
def test_a_decision_holds_for_the_connection_it_was_meant_for(rack: Rack) -> None:
    def window_pkts() -> int:
        return int(run.live()["cwnd_bytes"][0] // run.live()["mss_bytes"][0])

    with lab([ENDLESS], "newreno", rack=rack) as run:
        assert eventually(lambda: run.live()["marked_bytes"].sum() > 0)
        run.decide(1, 1, most_bytes=2 * 1460)  # for the one before it
        acks = int(run.live()["acks"][0])
        assert eventually(lambda: run.live()["acks"][0] > acks + 100)
        assert window_pkts() > 4
        run.decide(1, most_bytes=2 * 1460)
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
    with pytest.raises(UnknownNameError, match="controller in the kernel 'toggle'"):
        Shim("toggle", timeout_s=1.0)
    with pytest.raises(UnknownNameError, match="parameter of dctcp 'h'"):
        Shim("dctcp", [("h", 1)], timeout_s=1.0)
    with pytest.raises(ConfigError, match=r"g_shift of dctcp must be a whole number from 1 to 10 .* got 11"):
        Shim("dctcp", [("g_shift", 11)], timeout_s=1.0)
