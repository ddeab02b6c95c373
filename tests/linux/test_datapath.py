# SPDX-License-Identifier: BSD-3-Clause
"""The Linux datapath keeps the contract of ncc.harness.datapath, on real sockets; each run takes a second or two.

Other work on the machine makes it miss periods; what is asserted here holds nevertheless.
"""

import json
import os
import pickle
import subprocess
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.core.flows import check_columns
from ncc.core.scenario import Nic
from ncc.core.topologies import Dumbbell
from ncc.core.units import NS_PER_S
from ncc.core.workload import Fixed, Flow
from ncc.core.writes import Writes
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.settings import LinuxSettings
from ncc.envs.linux.stack import kernel_controls
from ncc.harness.datapath import Datapath, HostStack
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from tests.linux.patience import patiently
from tests.linux.rates import check_limit, counted
from tests.linux.runs import LONG, PAIR, SETTINGS, TRANSPORT, UNLIMITED, scenario, start, until_done
from tests.mains.commands import ncc
from tests.support.linux import TRAFFIC, needs
from tests.support.measurements import check_measurement


def test_it_is_a_datapath_that_wants_to_be_alone() -> None:
    assert isinstance(LinuxDatapath(), Datapath)
    chosen: Any = load_datapath("linux").load()
    assert LinuxDatapath.alone
    assert chosen.alone
    made = pickle.loads(pickle.dumps(chosen))()
    assert made.settings == LinuxSettings()  # the YAML lists the defaults
    with pytest.raises(ConfigError, match=r"datapath.linux.settings.scheduling"):
        LinuxDatapath.configured({"scheduling": "fast"}, "datapath.linux.settings")


@needs("objects")
def test_transports_are_ours_and_the_kernels(datapath: LinuxDatapath) -> None:
    assert {f"linux::{name}" for name in kernel_controls()} <= set(datapath.transports())
    assert not [name for name in datapath.transports() if name.startswith(("linux::ncc", "ncc"))]
    for name in ("linux_cubic", "linux_bbr", "linux_dctcp", "linux_reno"):
        assert load_controller(name).stack.transport == name.replace("_", "::")


@needs("objects")
def test_unknown_names_are_refused_with_what_exists(datapath: LinuxDatapath) -> None:
    def refused(**stack: Any) -> None:
        datapath.start(PAIR, PAIR.flows(1), HostStack(**stack), 1)

    with pytest.raises(UnknownNameError, match=r"'dtcp'.*Did you mean 'dctcp'.*newreno"):
        refused(transport="dtcp")
    with pytest.raises(
        UnknownNameError, match=r"flow order 'srtp'. Did you mean 'srpt'\? Known: attained, fair, fifo, "
    ):
        refused(order="srtp")
    with pytest.raises(UnknownNameError, match=r"parameter of dctcp 'gain'; known: .*g_shift"):
        refused(params=(("gain", 3),))
    with pytest.raises(ConfigError, match=r"linux::cubic is the kernel's own and takes no parameters"):
        refused(transport="linux::cubic", params=(("beta", 3),))
    for order, params in (("fair", ()), ("upsilon", (("omega_milli", 500),)), ("known", (("kappa", 3),))):
        with pytest.raises(ConfigError, match=rf"keep the orders known, sjf, srpt, each with kappa 0, and not {order}"):
            refused(order=order, order_params=params)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"transport": TRANSPORT.replace(handshake=False)}, "transport.handshake must be true on linux"),
        ({"transport": TRANSPORT.replace(rtt_noise_max_s=1e-3)}, "rtt_noise_max_s must be 0 on linux"),
        ({"nic": PAIR.nic.replace(knows="services")}, "nic.knows must be sizes or backlog on linux"),
        ({"drain_s": 1000.0}, r"make 1000\.5 s, and a run on linux takes at most 600 s"),
        (
            {"period_s": 0.03},
            r"period_s and decision_latency_s make 0\.03 s, and on linux they may take 0\.025 s, half of",
        ),
        ({"period_s": 0.02, "decision_latency_s": 0.01}, r"make 0\.03 s"),
    ],
)
@needs("objects")
def test_what_linux_cannot_do_is_refused(changed: dict[str, Any], said: str) -> None:
    what = PAIR.replace(**changed)
    with pytest.raises(ConfigError, match=said):
        LinuxDatapath().start(what, what.flows(1), HostStack(), 1)


def test_traffic_ends_soon_after_its_scenario() -> None:
    settings = LinuxSettings(longest_s=60.0)
    assert settings.check_length(2.0, 3.0) == 15.0
    assert settings.check_length(2.0, 55.0) == 60.0
    assert settings.check_length(2.0, None) == 60.0


@needs(*TRAFFIC)
@pytest.mark.parametrize("transport", ["dctcp", "linux::cubic"])
def test_a_run_has_the_documented_shapes_and_delivers(datapath: LinuxDatapath, transport: str) -> None:
    first = start(datapath, PAIR, HostStack(transport=transport))
    assert (first.time_s, first.epoch, first.flows_started) == (0, 0, 0)
    assert not first.throughput_bps.any()
    assert (first.rtt_s > 0).all()
    epochs, records = until_done(datapath, PAIR)
    check_columns(records.flows)
    check_columns(records.ports)
    assert np.isfinite(records.flows.finish_s).all()
    assert (records.flows.finish_s > PAIR.flows(1).start_s).all()
    assert (records.flows.sent_pkts >= [206, 69]).all()
    assert (records.flows.rtt_min_s > 0).all()
    assert len(records.ports.tx_pkts) == 2 * len(PAIR.network().links)
    assert np.isfinite(records.flows.rtt_mean_s).all()
    assert all(now.epoch > before.epoch for before, now in pairwise(epochs))
    assert epochs[-1].time_s == pytest.approx(epochs[-1].epoch * PAIR.period_s)
    for measurement in epochs:
        check_measurement(measurement, n_agents=2)
    assert epochs[-1].flows_finished == 2
    assert not epochs[-1].active_flows.any()
    lengths = np.diff([0.0, *(m.time_s for m in epochs)])
    goodput_bps = np.array([m.goodput_bps for m in epochs])
    # Lengths of periods are as they should be, not as they were: each end may have been late.
    late_bytes = goodput_bps.sum(axis=0) * 2 * datapath.facts["late_us"]["max"] * 1e-6 / 8
    assert (np.abs(lengths @ goodput_bps / 8 - [300_000, 100_000]) < 3000 + late_bytes).all()


@needs(*TRAFFIC)
@pytest.mark.parametrize("transport", ["dctcp", "linux::cubic"])
def test_hosts_that_know_backlogs_see_what_waits_in_sockets(datapath: LinuxDatapath, transport: str) -> None:
    """With 3 MB under way, the known backlog is at most a socket's buffer."""
    what = scenario(("s0", 3_000_000, 0.0), ("s1", 10_000, 0.05), nic=Nic(knows="backlog"))
    start(datapath, what, HostStack(transport=transport))
    epochs, records = until_done(datapath, what)
    assert np.isfinite(records.flows.finish_s).all()
    queued = np.array([m.queued_bytes for m in epochs])
    assert 0 < queued[:, 0].max() < 1_000_000
    assert queued[:, 1].max() <= 10_000
    assert not epochs[-1].queued_bytes.any()


@needs(*TRAFFIC)
def test_applications_write_piece_by_piece(datapath: LinuxDatapath) -> None:
    """10 pieces of 20 KB, 10 ms apart: the last one is written 90 ms after the first."""
    traffic = Fixed(
        flows=(Flow(start_s=0.01, src="s0", dst="receiver", size_bytes=200_000),),
        writes=Writes(chunk_bytes=20_000, every_s=0.01),
    )
    what = PAIR.replace(workload=(("stream", traffic),), nic=Nic(knows="backlog"))
    start(datapath, what)
    epochs, records = until_done(datapath, what)
    assert records.flows.finish_s[0] - 0.01 > 0.09
    late_s = datapath.facts["late_us"]["max"] * 1e-6
    queued_bytes = np.array([m.queued_bytes[0] for m in epochs])
    written = 1 + (np.array([m.time_s for m in epochs]) + late_s - 0.01) / 0.01
    assert (queued_bytes <= 20_000 * np.maximum(written, 0)).all()
    (waits,) = np.nonzero(queued_bytes)
    assert (queued_bytes[waits[0] : waits[-1]] == 0).any(), "it pauses"


@needs(*TRAFFIC)
def test_bad_limits_are_refused_and_the_run_goes_on(datapath: LinuxDatapath) -> None:
    start(datapath, PAIR)
    for limits, said in (
        (np.full(3, 1e9), r"shape \(2,\)"),
        (np.array([1e9, np.nan]), r"host s1 .*nan"),
        (np.array([0.0, 1e9]), r"host s0 .*0\.0"),
        (np.array([1e9, -np.inf]), r"host s1 .*-inf"),
    ):
        with pytest.raises(ConfigError, match=said):
            datapath.step(limits)
    assert datapath.step(UNLIMITED).epoch >= 1


@needs(*TRAFFIC)
@pytest.mark.parametrize("transport", ["dctcp", "linux::cubic"])
def test_a_limit_takes_a_queue(datapath: LinuxDatapath, transport: str) -> None:
    start(datapath, PAIR, HostStack(transport=transport))
    with pytest.raises(ConfigError, match=r"Host s1 cannot be limited to 1e\+07 bits/s.*settings\.queues=true"):
        datapath.step(np.array([np.inf, 1e7]))


@needs(*TRAFFIC)
def test_limits_are_refused_where_flows_stay_in_the_neighbourhood(datapath: LinuxDatapath) -> None:
    topology = Dumbbell(pairs=2, host_rate_bps=1e8, bottleneck_rate_bps=1e8, buffer_bytes=150_000)
    inside = Fixed(flows=(Flow(start_s=0.0, src="s0", dst="s1", size_bytes=1000),))
    what = PAIR.replace(topology=topology, workload=(("fixed", inside),))
    start(datapath, what, HostStack(transport="newreno", order="known"))
    datapath.step(np.array([np.inf, 1e7]))
    with pytest.raises(ConfigError, match=r"limit of host s0 .* also for flow 0, which stays inside"):
        datapath.step(np.array([1e7, 1e7]))
    datapath.finish()
    assert any("nodes inside its neighbourhood" in said for said in datapath.facts["not_honoured"])


ORDERED = scenario(("s0", 600_000, 0.0), ("s0", 600_000, 0.0), ("s0", 100_000, 0.2), period_s=0.005)
"""Two long flows, and a short one that comes meanwhile."""


def meanwhile_bytes(datapath: LinuxDatapath, stack: HostStack) -> float:
    """Bytes of all flows that were delivered while the short one was under way, at 10 Mbit/s."""
    start(datapath, ORDERED, stack)
    run = datapath._run
    assert run is not None
    epochs, records = until_done(datapath, ORDERED, np.array([10e6, np.inf]))
    assert not records.flows.timeouts.any()
    since_s = (int(run._traffic.flows["opened_ns"][2]) - run._periods.start_ns) / NS_PER_S
    time_s = np.array([now.time_s for now in epochs])
    sent_bytes = np.array([now.goodput_bps[0] for now in epochs]) * np.diff(time_s, prepend=0.0) / 8
    return float(sent_bytes[(time_s > since_s) & (time_s <= records.flows.finish_s[2])].sum())


@needs(*TRAFFIC)
def test_an_order_lets_the_short_flow_pass() -> None:
    with closing(LinuxDatapath(SETTINGS.replace(queues=True))) as datapath:
        for stack in (HostStack(), HostStack(order="srpt"), HostStack(transport="linux::cubic", order="srpt")):
            passes = stack.order == "srpt"
            assert (meanwhile_bytes(datapath, stack) < 175_000) == passes  # equal shares are 300 KB
            assert datapath.facts["order"] == ("known" if passes else "fifo")
            assert not passes or datapath.facts["queues"]["hinted"] == 3


@needs(*TRAFFIC)
def test_classes_of_the_order_are_as_large_as_the_stack_says(datapath: LinuxDatapath) -> None:
    largest = tuple((f"class{i}_bytes", 1_000_000) for i in range(1, 8))
    for params, least, most in ((largest, 0, 0), (largest[-1:], 2, 5)):
        start(datapath, PAIR, HostStack(order="known", order_params=params))
        until_done(datapath, PAIR)
        assert datapath.facts["order"] == "known"
        assert least <= datapath.facts["queues"]["demotions"] <= most, params


@needs(*TRAFFIC)
def test_the_kernels_own_take_a_limit_in_the_hosts_queue() -> None:
    with closing(LinuxDatapath(SETTINGS.replace(queues=True))) as datapath:
        start(datapath, LONG, HostStack(transport="linux::cubic"))
        limits = np.array([20e6, np.inf])
        datapath.step(limits)
        rack = datapath._run._rack  # type: ignore[union-attr]
        port = rack.topology.port("s0->tor")
        check_limit(lambda: counted(lambda: int(rack.switch.sample()["tx_bytes"][port])), 20e6)
        datapath.finish()
        assert datapath.facts["order"] == "fifo"
        assert any("A host's limit is of all packets" in said for said in datapath.facts["not_honoured"])


@needs(*TRAFFIC)
def test_close_twice_restart_and_out_of_order_calls(datapath: LinuxDatapath) -> None:
    with pytest.raises(DatapathError, match=r"step\(\).*start\(\)"):
        datapath.step(UNLIMITED)
    with pytest.raises(DatapathError, match=r"finish\(\).*start\(\)"):
        datapath.finish()
    cores = os.sched_getaffinity(0)
    start(datapath, PAIR)
    datapath.step(UNLIMITED)
    with pytest.raises(DatapathError, match="cannot be copied or pickled"):
        pickle.dumps(datapath)
    start(datapath, PAIR)  # ends the run before it
    assert datapath.step(UNLIMITED).flows_finished == 0
    datapath.close()
    datapath.close()
    with pytest.raises(DatapathError):
        datapath.step(UNLIMITED)
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"ncc-{os.getpid()}-" not in left
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert os.sched_getaffinity(0) == cores


@needs(*TRAFFIC)
def test_evaluate_prints_the_same_table_and_keeps_the_facts(tmp_path: Any) -> None:
    def attempt() -> subprocess.CompletedProcess[str]:
        done = ncc(
            "evaluate",
            "datapath=linux",
            "scenario=lab_incast",
            "controller=[dctcp,linux_cubic]",
            "duration_s=0.5",
            "seeds=1",
            "workers=1",
            "datapath.linux.settings.missed_frac=1.0",
            "scenario.transport.initial_rto_s=0.1",
            "out=judged",
            cwd=tmp_path,
        )
        if done.returncode:
            raise DatapathError(done.stderr)
        return done

    done = patiently(attempt)
    assert "lab_incast on linux: " in done.stdout
    facts = json.loads((tmp_path / "judged" / "linux" / "dctcp" / "0" / "manifest.json").read_text())["facts"]
    assert facts["datapath_facts"]["periods"] >= 300
    assert facts["datapath_facts"]["settings"]["missed_frac"] == 1.0
    assert any("initial_rto_s" in said for said in facts["datapath_facts"]["not_honoured"])
    assert not any("throughput_bps" in said for said in facts["datapath_facts"]["not_honoured"])
