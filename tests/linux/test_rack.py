# SPDX-License-Identifier: BSD-3-Clause
"""The rack starts, carries packets between all its hosts, and leaves nothing behind, also after faults."""

import ctypes
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.scenario import Nic, Transport
from ncc.core.topologies import Dumbbell, LeafSpine, ManyToOne
from ncc.envs.linux import namespaces, stack
from ncc.envs.linux.namespaces import sweep
from ncc.envs.linux.rack import Rack, check_rack
from tests.linux.lab import facts
from tests.linux.sockets import PORT, info, round_trips_s
from tests.linux.spaces import of_killed
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import PATIENCE_S, eventually

SMALL = ManyToOne(senders=2, rate_bps=200e6)
WAN = Dumbbell(pairs=1, host_rate_bps=200e6, bottleneck_rate_bps=200e6, delay_s=300e-6)
"""Network with a delay program at every link."""
BUILT_AND_WAITING = """
import subprocess, sys, time
from ncc.core.topologies import Dumbbell
from ncc.envs.linux import namespaces
from ncc.envs.linux.rack import Rack
rack = Rack(Dumbbell(pairs=1, host_rate_bps=200e6, bottleneck_rate_bps=200e6, delay_s=300e-6).build())
with namespaces.inside(rack.namespace(rack.topology.hosts[0])):
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(child.pid, *(delay.pid for delay in rack.delays.values()), flush=True)
time.sleep(300)
"""
AS_NOBODY = """
import os
from ncc.core.errors import DatapathError
from ncc.core.topologies import ManyToOne
from ncc.envs.linux.rack import Rack
topology = ManyToOne(senders=2).build()
os.setuid(65534)
try:
    Rack(topology)
except DatapathError as error:
    print(error)
"""


def namespaces_of(pid: int) -> set[str]:
    return {name for name in namespaces.names() if name.startswith(f"{namespaces.PREFIX}-{pid}-")}


def programs_of(rack: Rack) -> list[int]:
    """Ids of the switch's programs, as the kernel knows them."""
    return [facts(fd)["prog_id"] for fd in rack.switch.programs.values()]


def loaded(program: int) -> bool:
    syscall, ask = ctypes.CDLL(None, use_errno=True).syscall, (ctypes.c_uint32 * 32)(program)
    fd = int(syscall(321, 13, ask, ctypes.sizeof(ask)))  # bpf(BPF_PROG_GET_FD_BY_ID)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def global_settings() -> dict[str, str]:
    """Settings of this namespace, which no rack may change."""
    root = Path("/proc/sys/net")
    files = [*root.glob("ipv4/tcp_*"), *root.glob("ipv4/ip_*"), *root.glob("ipv4/conf/*/*"), *root.glob("core/*")]
    files = [file for file in files if "congestion_control" not in file.name]  # a list of modules, not a setting
    return {str(file): file.read_text() for file in files if file.is_file() and os.access(file, os.R_OK)}


def new_rto_s(rack: Rack, src: int, dst: int) -> float:
    """Retransmission timeout of a connection that has just been made between two hosts, where nothing else is sent."""
    with namespaces.inside(rack.namespace(dst)):
        listener = socket.create_server((rack.address(dst), PORT))
    with namespaces.inside(rack.namespace(src)):
        sender = socket.create_connection((rack.address(dst), PORT))
    with listener, sender:
        return info(sender).rto_s


def alive(pid: int) -> bool:
    return namespaces.start_ticks(pid) is not None


def entries(of: str) -> int:
    """Descriptors (`fd`) or threads (`task`) of this process."""
    return len(list(Path(f"/proc/self/{of}").iterdir()))


class TestRefusals:
    def test_more_than_one_way(self) -> None:
        with pytest.raises(ConfigError, match=r"takes trees only.*8 nodes need 7 links, got 8"):
            check_rack(LeafSpine(leaves=2, spines=2, hosts_per_leaf=2).build(), Transport(recovery="classic"))

    def test_a_delay_between_a_hop_and_what_the_program_holds(self) -> None:
        with pytest.raises(ConfigError, match=r"left->right .*at most 30 us .*at least 200 us, got 100 us"):
            check_rack(Dumbbell(delay_s=100e-6).build(), Transport(recovery="classic"))
        for delay_s in (0.0, 20e-6, 200e-6, 5e-3):
            check_rack(Dumbbell(delay_s=delay_s).build(), Transport(recovery="classic"))

    def test_a_frame_smaller_than_ethernets_header(self) -> None:
        with pytest.raises(ConfigError, match="frame_overhead_bytes must be at least 14"):
            check_rack(SMALL.build(), Transport(recovery="classic", frame_overhead_bytes=0))

    def test_what_the_kernels_tcp_does_otherwise_is_said(self) -> None:
        jiffy_s = stack.jiffy_s()
        said = stack.not_honoured(
            Transport(recovery="classic", initial_rto_s=1.0, delayed_ack_pkts=1, min_rto_s=10 * jiffy_s), Nic()
        )
        assert [line.split()[0] for line in said] == ["transport.recovery:"]
        said = stack.not_honoured(Transport(recovery="classic", min_rto_s=2.5 * jiffy_s), Nic())
        ms = round(2.5 * jiffy_s * 1e3)
        kept_ms = math.ceil(ms / jiffy_s / 1e3) * jiffy_s * 1e3
        assert (f"transport.min_rto_s is {kept_ms:g} ms here" in " ".join(said)) == (abs(ms - kept_ms) > 1e-6)
        asked = Transport(
            initial_rto_s=0.02, delayed_ack_pkts=4, recovery="modern", timer_slack_s=4e-4, timer_tick_s=jiffy_s / 2
        )
        said = stack.not_honoured(asked, Nic())
        for field in ("initial_rto_s", "delayed_ack_pkts", "delayed_ack_s", "timer_slack_s", "timer_tick_s"):
            assert [line for line in said if line.startswith(f"transport.{field} ")], field
        said = stack.not_honoured(asked.replace(timer_slack_s=2e-3, timer_tick_s=jiffy_s), Nic())
        assert not [line for line in said if "timer" in line]

    @needs("root", "net", "ip")
    @pytest.mark.parametrize("left", [False, True])
    def test_without_root_one_sentence_says_so(self, left: bool) -> None:
        dead = of_killed("x")
        try:
            if left:
                namespaces.create(dead)
            ended = subprocess.run(
                [sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, timeout=600, check=False
            )
        finally:
            namespaces.remove(dead)
        assert ended.returncode == 0, ended.stderr
        assert "take root (sudo), or CAP_SYS_ADMIN and CAP_NET_ADMIN" in ended.stdout
        assert ended.stdout.count("\n") == 1


@needs(*TRAFFIC)
class TestNetwork:
    def test_every_host_reaches_every_other_and_packets_are_counted_on_the_way(self) -> None:
        network = Dumbbell(pairs=2, host_rate_bps=200e6, bottleneck_rate_bps=200e6).build()
        with Rack(network) as rack:
            for src in network.hosts:
                for dst in network.hosts:
                    if src != dst:
                        round_trips_s(rack, src, dst, 2)
            tx = rack.switch.records().tx_pkts
        for port in range(2 * len(network.links)):
            crossing = sum(
                port in network.path(src, dst) for src in network.hosts for dst in network.hosts if src != dst
            )
            assert tx[port] == 4 * crossing, network.port_name(port)

    def test_two_racks_do_not_meet(self) -> None:
        with Rack(SMALL.build()) as one, Rack(SMALL.build()) as other:
            src, dst = one.topology.hosts[:2]
            assert one.namespace(src) != other.namespace(src)
            round_trips_s(one, src, dst, 5)
            assert one.switch.records().tx_pkts.sum() == 20
            assert other.switch.records().tx_pkts.sum() == 0

    def test_settings_hold_inside_only(self) -> None:
        before = global_settings()
        transport = Transport(
            recovery="classic", min_rto_s=0.02, initial_window_pkts=7, sack=False, dup_ack_pkts=5, delayed_ack_pkts=1
        )
        with Rack(SMALL.build(), transport, Nic(small_queue_bytes=9000)) as rack:
            host = rack.topology.hosts[0]
            with namespaces.inside(rack.namespace(host)):
                inside = {
                    name: Path(f"/proc/sys/net/ipv4/tcp_{name}").read_text().split()[-1]
                    for name in (
                        "ecn",
                        "sack",
                        "reordering",
                        "tso_rtt_log",
                        "timestamps",
                        "limit_output_bytes",
                        "early_retrans",
                    )
                }
            shown = ["ip", "-n", rack.namespace(host), "route", "show", "default"]
            default = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
            assert inside == {
                "ecn": "1", "sack": "0", "reordering": "5", "tso_rtt_log": "0", "timestamps": "0",
                "limit_output_bytes": "18000", "early_retrans": "0",
            }  # fmt: skip
            assert all(metric in default for metric in ("rto_min lock 20ms", "initcwnd 7", "quickack 1"))
            assert new_rto_s(rack, host, rack.topology.hosts[1]) < 0.2, "the kernel's own least"
            assert global_settings() == before
        assert global_settings() == before


@needs(*TRAFFIC)
class TestNothingIsLeft:
    def test_after_several_racks(self) -> None:
        programs = []
        links = socket.if_nameindex()
        files, threads = entries("fd"), entries("task")
        for i in range(3):
            with Rack((WAN if i % 2 == 0 else SMALL).build()) as rack:
                src, dst = rack.topology.hosts[:2]
                round_trips_s(rack, src, dst, 2)
                programs += programs_of(rack)
                assert all(map(loaded, programs[-2:]))
                pids = [delay.pid for delay in rack.delays.values()]
                assert len(pids) == (3 if i % 2 == 0 else 0)
            rack.close()
            assert not namespaces_of(os.getpid())
            assert not [pid for pid in pids if alive(pid)]
        assert socket.if_nameindex() == links
        assert entries("fd") == files
        assert entries("task") == threads
        assert eventually(lambda: not any(map(loaded, programs))), "the switch's programs are still loaded"

    def test_after_an_error_while_building(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise DatapathError("no routes today")

        monkeypatch.setattr(Rack, "_routes", fail)
        with pytest.raises(DatapathError, match="no routes today"):
            Rack(WAN.build())
        assert not namespaces_of(os.getpid())

    def test_processes_inside_end_with_it(self) -> None:
        with Rack(SMALL.build()) as rack:
            with namespaces.inside(rack.namespace(rack.topology.hosts[0])):
                child = subprocess.Popen(["sleep", "100"])
            assert child.poll() is None
        assert child.wait(PATIENCE_S) == -signal.SIGKILL

    def test_a_killed_run_is_swept_with_its_processes(self) -> None:
        with subprocess.Popen([sys.executable, "-c", BUILT_AND_WAITING], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            try:
                child, *delays = map(int, run.stdout.readline().split())
                assert len(delays) == 3
                assert not set(sweep()) & namespaces_of(run.pid)  # of a run that lives
                assert len(namespaces_of(run.pid)) == 4
            finally:
                run.kill()
            run.wait()
        assert eventually(lambda: not any(map(alive, delays))), "a delay program outlives its run"
        assert alive(child)
        left = namespaces_of(run.pid)
        assert len(left) == 4
        assert left <= set(sweep())
        assert not namespaces_of(run.pid)
        assert not alive(child)
        assert not set(sweep()) & left

    def test_only_namespaces_of_dead_processes_of_here_are_swept(self) -> None:
        pid, start, here = namespaces.owner().removeprefix(f"{namespaces.PREFIX}-").split("-")
        dead = f"{namespaces.PREFIX}-{pid}-{int(start) - 1}-{here}-0-0-x"  # the number was another's before
        others = [f"{namespaces.PREFIX}-{pid}-1-1-0-0-x", f"{namespaces.PREFIX}-mine", f"{namespaces.owner()}-0-0-x"]
        try:
            for name in (dead, *others):
                namespaces.create(name)
            assert dead in sweep()
            left = set(namespaces.names())
            assert dead not in left
            assert left >= set(others)
        finally:
            for name in others:
                namespaces.remove(name)
