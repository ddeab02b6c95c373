# SPDX-License-Identifier: BSD-3-Clause
"""Ports of the rack with real packets: rate, buffer, marks, shared pools, and counters."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import check_columns
from ncc.core.scenario import Scenario
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.core.topology import Program, Red
from ncc.core.topology_spec import TopologySpec
from ncc.envs.linux import namespaces, switch
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from ncc.harness.datapath import HostStack, Records
from tests.datapaths.runs import fixed, flow
from tests.linux.rates import check_limit, counted
from tests.linux.runs import SETTINGS, TRANSPORT, scenario, start, until_done
from tests.linux.sockets import PORT, Bulk, bulk, info, unacknowledged
from tests.support.linux import TRAFFIC, needs
from tests.support.processes import eventually

MTU = 1500
RATE_BPS = 100e6
DROP_TAIL = ManyToOne(senders=4, rate_bps=RATE_BPS, buffer_bytes=300_000, mark_threshold_bytes=0)


class TestLayout:
    def test_ports_say_what_the_topology_says(self) -> None:
        spec = DROP_TAIL.replace(
            mark_threshold_bytes=30_000, red=Red(min_bytes=10_000, max_bytes=50_000, max_prob_frac=0.5)
        )
        network = spec.build()
        rows = switch.port_rows(network, 38)
        down = rows[network.port("tor->receiver")]
        assert (down["rate_bytes_per_s"], down["frame_overhead_bytes"]) == (12_500_000, 38)
        assert (down["size_bytes"], down["mark_threshold_bytes"], down["finite"]) == (300_000, 30_000, 1)
        assert down["red"].tolist() == (10_000, 50_000, 2**31)
        assert down["pool"] == switch.NO_POOL
        up = rows[network.port("s0->tor")]
        assert (up["finite"], up["size_bytes"], up["rate_bytes_per_s"]) == (0, 0, 12_500_000)

    def test_pools_list_their_ports(self) -> None:
        network = DROP_TAIL.replace(shared_buffer_bytes=200_000, dt_alpha=2.0).build()
        (pool,) = switch.pool_rows(network)
        assert (pool["size_bytes"], pool["alpha"], pool["n_ports"]) == (200_000, 2048, 5)
        listed = pool["ports"][: pool["n_ports"]]
        assert all(network.port_buffer(int(port)) is not None for port in listed)
        assert (switch.port_rows(network, 38)["pool"][listed] == 0).all()


class TestRefusals:
    @pytest.mark.parametrize("field", ["control_first", "mark_on_departure"])
    def test_what_a_port_cannot_do_is_refused_by_name(self, field: str) -> None:
        network = DROP_TAIL.replace(**{field: True}).build()
        with pytest.raises(ConfigError, match=f"does not offer {field}, which port tor->receiver asks for"):
            switch.check_switch(network)

    def test_too_many_links(self) -> None:
        with pytest.raises(ConfigError, match="at most 128 links, got 129"):
            switch.check_switch(DROP_TAIL.replace(senders=128).build())

    def test_too_many_ports_in_a_pool(self) -> None:
        with pytest.raises(ConfigError, match="at most 32 ports share a buffer, got 33 of pool 0"):
            switch.check_switch(DROP_TAIL.replace(senders=32, shared_buffer_bytes=1_000_000).build())


@contextmanager
def incast(spec: TopologySpec, congestion: str = "cubic") -> Iterator[tuple[int, Bulk]]:
    """All senders send to the one receiver without end; its port, and the flows."""
    network = spec.build()
    with Rack(network) as rack:
        receiver = network.group("receiver")[0]
        with bulk(rack, [(src, receiver) for src in network.group("senders")], congestion) as run:
            yield network.port("tor->receiver"), run


def ran(what: Scenario, **stack: Any) -> tuple[Records, int]:
    """Records of a run to its end, and the number of switches' signals that connections received."""
    datapath = LinuxDatapath(SETTINGS)
    try:
        start(datapath, what, HostStack(**stack))
        _, done = until_done(datapath, what, np.full(what.n_agents, np.inf))
        heard = datapath.shim.signals_received if datapath.shim is not None else 0
    finally:
        datapath.close()
    assert np.isfinite(done.flows.finish_s).all()
    return done, heard


@needs(*TRAFFIC)
class TestQueue:
    def test_drop_tail_fills_the_buffer_and_counts_agree(self) -> None:
        with incast(DROP_TAIL) as (port, run):
            check_limit(lambda: counted(lambda: int(run.ports()["tx_bytes"][port])), RATE_BPS * 1500 / 1538)
            assert eventually(lambda: run.grown(port, "dropped_pkts"))
            mean_bytes, last = run.queue_mean_bytes(port), run.ports()
        assert 0 < mean_bytes <= last["queue_max_bytes"][port]
        assert 300_000 - MTU <= last["queue_max_bytes"][port] <= 300_000 + 2 * MTU
        assert last["marked_pkts"].sum() == 0
        assert last["largest_bytes"].max() == MTU  # not segmented by the device
        waiting = {"pkts": 1, "bytes": MTU}  # a packet on each processor may be between the program and the queue
        for unit, size in waiting.items():
            known = int(last[f"tx_{unit}"][port]) + int(last[f"queue_{unit}"][port])
            assert 0 <= int(last[f"joined_{unit}"][port]) - known <= (os.cpu_count() or 1) * size
        assert last["queue_byte_ns"][port] / last["queue_pkt_ns"][port] == pytest.approx(MTU, rel=0.02)
        sent = sum(int(last["tx_bytes"][DROP_TAIL.build().port(f"s{i}->tor")]) for i in range(4))
        assert sent >= last["tx_bytes"][port]

    def test_dctcp_keeps_its_queue_short_and_shorter_for_a_lower_threshold(self) -> None:
        means_bytes = []
        with Shim("dctcp", timeout_s=1.0) as shim:
            for threshold_bytes in (20_000, 80_000):
                with incast(DROP_TAIL.replace(mark_threshold_bytes=threshold_bytes), shim.name) as (port, run):
                    assert eventually(lambda: run.grown(port, "marked_pkts") > 500)
                    means_bytes.append(run.queue_mean_bytes(port))
                    last = run.ports()
                assert np.delete(last["marked_pkts"], port).sum() == 0
                assert last["dropped_pkts"][port] == 0
        assert 2 * means_bytes[0] < means_bytes[1]


@needs(*TRAFFIC)
class TestProgram:
    """RWNDQ at the ports, as in simulators: the kernel's TCP obeys the windows that the program writes."""

    RWNDQ = (Program(name="rwndq", params=(("t_ns", 1_000_000),)),)

    def test_the_queue_stays_below_the_buffer_without_a_drop(self) -> None:
        """Three times the bytes that fill the buffer without the program."""
        with incast(DROP_TAIL.replace(programs=self.RWNDQ)) as (port, run):
            assert eventually(lambda: run.grown(port, "tx_bytes") > 5_000_000)
            last = run.ports()
            shares = run.received_bytes()
        assert last["dropped_pkts"].sum() == 0
        assert last["queue_max_bytes"][port] < 200_000
        assert shares.min() > 0.5 * shares.max()

    def test_flows_that_are_over_do_not_count(self) -> None:
        """The first and the tenth flow may send a fifth of the buffer. If all counted, the tenth's would be a tenth."""
        spec = DROP_TAIL.replace(senders=2, programs=self.RWNDQ)
        with Rack(spec.build()) as rack:
            first, *_, last = (window_bytes(rack) for _ in range(10))
        assert first == pytest.approx(60_000, rel=0.2)
        assert last == pytest.approx(first, rel=0.2)


def window_bytes(rack: Rack) -> int:
    """Window that a flow of two packets has been given at its end."""
    receiver, sender = rack.topology.group("receiver")[0], rack.topology.group("senders")[0]
    with namespaces.inside(rack.namespace(receiver)):
        listener = socket.create_server((rack.address(receiver), PORT))
    with namespaces.inside(rack.namespace(sender)):
        one = socket.socket()
    with listener, one:
        one.connect((rack.address(receiver), PORT))
        with listener.accept()[0] as end:
            one.sendall(bytes(2000))
            got = 0
            while got < 2000:
                got += len(end.recv(2000))
            assert eventually(lambda: not unacknowledged(one))
            found = info(one).offered_bytes
            one.shutdown(socket.SHUT_WR)
            assert end.recv(1) == b""  # its FIN has passed the port
    return found


@needs(*TRAFFIC)
class TestSignals:
    """QCN at the ports reports the queue to the kernel's senders in packets of its own."""

    QCN = (Program(name="qcn", params=(("target_bytes", 60_000), ("sample_bytes", 15_000))),)
    LAB = (("cycle_bytes", 15_000), ("ai_kbps", 50), ("hai_kbps", 500), ("min_kbps", 100))

    def test_senders_that_listen_keep_the_queue_shorter_than_deaf_ones(self) -> None:
        """Four flows of 2 MB over the port."""
        spec = DROP_TAIL.replace(programs=self.QCN)
        what = scenario(*((f"s{i}", 2_000_000, 0.0) for i in range(4)), topology=spec, duration_s=2.5, period_s=0.01)
        port, waits_s, words = spec.build().port("tor->receiver"), [], []
        for transport, params in (("annulus_cubic", self.LAB), ("cubic", ())):
            done, heard = ran(what, transport=transport, params=params)
            waits_s.append(done.ports.queue_delay_sum_s[port] / done.ports.tx_pkts[port])
            words.append(heard)
        assert words[0] > 100
        assert words[1] == 0
        assert 2 * waits_s[0] < waits_s[1]

    def test_a_signal_crosses_several_switches(self) -> None:
        """The bottleneck is two switches away, and tells senders as well."""
        spec = Dumbbell(
            pairs=4, host_rate_bps=RATE_BPS, bottleneck_rate_bps=RATE_BPS / 2, buffer_bytes=300_000,
            mark_threshold_bytes=0, programs=self.QCN,
        )  # fmt: skip
        flows = (flow(f"s{i}", f"r{i}", 1_000_000) for i in range(4))
        what = fixed(spec, *flows, duration_s=2.5, period_s=0.01, drain_s=100.0, transport=TRANSPORT)
        assert ran(what, transport="annulus_dctcp", params=self.LAB)[1] > 20


@needs(*TRAFFIC)
class TestClasses:
    """Hosts write classes into packets, and ports serve them in strict order, in one buffer."""

    SLOW = DROP_TAIL.replace(rate_bps=10e6)
    """Its full buffer takes 240 ms, which is long even for a machine that is late."""

    def took_s(self, classes: int, tags: str, transport: str = "cubic", **params: int) -> tuple[float, float]:
        """Return the longest time in s of two long flows, and the median of 5 short ones that come meanwhile."""
        long = ((f"s{i}", 500_000, 0.0) for i in range(2))
        short = (("s2", 5_000, 0.3 + 0.05 * i) for i in range(5))
        what = scenario(*long, *short, topology=self.SLOW.replace(classes=classes), duration_s=1.0, period_s=0.01)
        done, _ = ran(what, transport=transport, tags=tags, tag_params=tuple(params.items()))
        took_s = done.flows.finish_s - what.flows(1).start_s
        return float(took_s[:2].max()), float(np.median(took_s[2:]))

    def test_short_flows_overtake_where_there_are_classes_and_tags_that_differ(self) -> None:
        passing = [
            self.took_s(2, "pias", "cubic", after_1_pkts=20),
            self.took_s(2, "pias", "linux::cubic", after_1_pkts=20),
            self.took_s(8, "by_size"),  # told before the first packet
        ]
        waiting = [self.took_s(1, "pias"), self.took_s(2, "none"), self.took_s(2, "pias", after_1_pkts=0)]
        for long_s, short_s in passing:
            assert short_s < min(short for _, short in waiting) / 3
            assert long_s < 2 * max(long for long, _ in waiting), "they are not starved, whatever they lose"


@needs(*TRAFFIC)
class TestSharedBuffer:
    def test_a_lone_queue_takes_its_share_of_the_pool(self) -> None:
        spec = DROP_TAIL.replace(buffer_bytes=20_000, shared_buffer_bytes=200_000, dt_alpha=1.0)
        with incast(spec) as (port, run):
            reach = spec.build().reach_bytes(port)
            assert eventually(lambda: run.grown(port, "dropped_pkts"))
            last = run.ports()
        assert reach == 120_000
        assert reach - 2 * MTU <= last["queue_max_bytes"][port] <= reach + 6 * MTU  # ACKs' ports share it too

    def test_the_pool_marks_before_it_is_full(self) -> None:
        shared = Red(min_bytes=20_000, max_bytes=80_000, max_prob_frac=0.2)
        spec = DROP_TAIL.replace(buffer_bytes=20_000, shared_buffer_bytes=2_000_000, dt_alpha=1.0, shared_red=shared)
        with incast(spec) as (port, run):
            assert eventually(lambda: run.grown(port, "marked_pkts") > 50)
            last = run.ports()
        assert last["dropped_pkts"][port] == 0
        assert last["queue_max_bytes"][port] < spec.build().reach_bytes(port) / 2


@needs(*TRAFFIC)
def test_records_are_of_every_port() -> None:
    with Rack(DROP_TAIL.build()) as rack:
        check_columns(rack.switch.records())
        assert rack.switch.records().tx_pkts.shape == (10,)
