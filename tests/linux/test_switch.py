# SPDX-License-Identifier: BSD-3-Clause
"""Ports of the rack with real packets: rate, buffer, marks, shared pools, and counters."""

import os

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import check_columns
from ncc.core.topologies import Dumbbell, ManyToOne
from ncc.core.topology import Program, Red, Topology
from ncc.core.topology_spec import TopologySpec
from ncc.envs.linux import switch
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.rack import Rack
from ncc.envs.linux.shim import Shim
from ncc.harness.datapath import HostStack
from tests.datapaths.runs import fixed, flow
from tests.linux.runs import SETTINGS, TRANSPORT, scenario, start, until_done
from tests.linux.sockets import Transfer, bulk, settled
from tests.support.linux import TRAFFIC, needs

MTU = 1500
RATE_BPS = 100e6
GOODPUT_BPS = RATE_BPS * 1460 / 1538
"""Payload of full packets, with 38 bytes of frame beside each."""
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


def incast(spec: TopologySpec, congestion: str = "cubic") -> tuple[Topology, Transfer]:
    """All senders send to the one receiver."""
    network = spec.build()
    with Rack(network) as rack:
        receiver = network.group("receiver")[0]
        return network, bulk(rack, [(src, receiver) for src in network.group("senders")], congestion=congestion)


@needs(*TRAFFIC)
class TestQueue:
    def test_drop_tail_fills_the_buffer_and_counts_agree(self) -> None:
        port = DROP_TAIL.build().port("tor->receiver")
        network, done = settled(
            lambda: incast(DROP_TAIL),
            lambda it: it[1].goodput_bps.sum() > 0.97 * GOODPUT_BPS and it[1].queue_mean_bytes(port) > 200_000,
        )
        assert done.goodput_bps.sum() == pytest.approx(GOODPUT_BPS, rel=0.04)
        assert done.queue_mean_bytes(port) > 180_000
        assert 300_000 - MTU <= done.last["queue_max_bytes"][port] <= 300_000 + 2 * MTU
        assert done.last["dropped_pkts"][port] > 0
        assert done.last["marked_pkts"].sum() == 0
        assert done.last["largest_bytes"].max() == MTU  # not segmented by the device
        last = done.last
        waiting = {"pkts": 1, "bytes": MTU}  # a packet on each processor may be between the program and the queue
        for unit, size in waiting.items():
            known = int(last[f"tx_{unit}"][port]) + int(last[f"queue_{unit}"][port])
            assert 0 <= int(last[f"joined_{unit}"][port]) - known <= (os.cpu_count() or 1) * size
        wait_s = done.grown(port, "queue_pkt_ns") / done.grown(port, "tx_pkts") / 1e9
        drained_s = done.queue_mean_bytes(port) * 1538 / 1500 * 8 / RATE_BPS
        assert wait_s == pytest.approx(drained_s, rel=0.1)
        sent = sum(int(last["tx_bytes"][network.port(f"s{i}->tor")]) for i in range(4))
        assert sent >= last["tx_bytes"][port]
        tx_bps = 8e9 * done.grown(port, "tx_bytes") / done.grown(port, "now_ns")
        assert tx_bps < 1.01 * RATE_BPS * 1500 / 1538

    @pytest.mark.parametrize("threshold_bytes", [20_000, 60_000])
    def test_dctcp_keeps_its_mean_at_the_threshold(self, threshold_bytes: int) -> None:
        spec = DROP_TAIL.replace(mark_threshold_bytes=threshold_bytes)
        port = spec.build().port("tor->receiver")
        with Shim("dctcp", timeout_s=1.0) as shim:
            _, done = settled(
                lambda: incast(spec, shim.name),
                lambda it: it[1].queue_mean_bytes(port) == pytest.approx(threshold_bytes, rel=0.1),
            )
        assert done.queue_mean_bytes(port) == pytest.approx(threshold_bytes, rel=0.2)
        assert done.grown(port, "marked_pkts") > 100
        assert np.delete(done.last["marked_pkts"], port).sum() == 0
        assert done.goodput_bps.sum() == pytest.approx(GOODPUT_BPS, rel=0.05)
        assert done.last["dropped_pkts"][port] == 0


@needs(*TRAFFIC)
class TestProgram:
    """RWNDQ at the ports, as in simulators: the kernel's TCP obeys the windows that it writes."""

    RWNDQ = (Program(name="rwndq", params=(("t_ns", 1_000_000),)),)

    def test_the_queue_stands_at_its_target_without_a_drop(self) -> None:
        spec = DROP_TAIL.replace(programs=self.RWNDQ)
        port = spec.build().port("tor->receiver")
        _, done = settled(lambda: incast(spec), lambda it: it[1].goodput_bps.sum() > 0.97 * GOODPUT_BPS)
        assert done.queue_mean_bytes(port) == pytest.approx(60_000, rel=0.15)  # a fifth of the buffer
        assert done.last["dropped_pkts"].sum() == 0
        goodput = done.goodput_bps
        assert goodput.sum() == pytest.approx(GOODPUT_BPS, rel=0.04)
        assert goodput.sum() ** 2 / (len(goodput) * (goodput**2).sum()) > 0.995

    def test_flows_that_are_over_do_not_count(self) -> None:
        """Forty flows, one after the other, over an RTT of 4 ms. If all counted, a share would be 7 KB, not 60."""
        spec = DROP_TAIL.replace(senders=2, delay_s=1e-3, programs=self.RWNDQ)
        what = scenario(*(("s0", 100_000, 0.04 * i) for i in range(40)), topology=spec, duration_s=1.8)
        datapath = LinuxDatapath(SETTINGS)
        try:
            start(datapath, what, HostStack(transport="cubic"))
            _, done = until_done(datapath, what)
        finally:
            datapath.close()
        fct_s = done.flows.finish_s - what.flows(1).start_s
        assert np.isfinite(fct_s).all()
        assert np.median(fct_s[-10:]) < 1.3 * np.median(fct_s[:10])
        assert done.ports.dropped_pkts.sum() == 0


@needs(*TRAFFIC)
class TestSignals:
    """QCN at the ports tells the kernel's senders of their queue, in packets of its own."""

    QCN = (Program(name="qcn", params=(("target_bytes", 60_000), ("sample_bytes", 15_000))),)
    LAB = (("cycle_bytes", 15_000), ("ai_kbps", 50), ("hai_kbps", 500), ("min_kbps", 100))

    def run(self, transport: str, params: tuple[tuple[str, int], ...] = (), **topology: object) -> tuple[float, int]:
        """Return the mean wait in s at the port of four flows of 5 MB, and how many signals came to a connection."""
        spec = DROP_TAIL.replace(programs=self.QCN).replace(**topology)
        what = scenario(*((f"s{i}", 5_000_000, 0.0) for i in range(4)), topology=spec, duration_s=2.5)
        datapath = LinuxDatapath(SETTINGS)
        try:
            start(datapath, what, HostStack(transport=transport, params=params))
            assert datapath.shim is not None
            _, done = until_done(datapath, what, np.full(what.n_agents, np.inf))
            heard = datapath.shim.heard
        finally:
            datapath.close()
        port = spec.build().port("tor->receiver")
        assert np.isfinite(done.flows.finish_s).all()
        return done.ports.queue_delay_sum_s[port] / done.ports.tx_pkts[port], heard

    def test_senders_that_listen_keep_the_queue_at_its_target(self) -> None:
        target_s = 60_000 * 8 / RATE_BPS
        wait_s, heard = self.run("annulus_cubic", self.LAB)
        assert heard > 100
        assert 0.3 * target_s < wait_s < 2 * target_s
        deaf_s, none = self.run("cubic")
        assert none == 0
        assert deaf_s > 3 * target_s

    def test_a_signal_crosses_several_switches(self) -> None:
        """The bottleneck is two switches away, and tells senders as well."""
        spec = Dumbbell(
            pairs=4, host_rate_bps=RATE_BPS, bottleneck_rate_bps=RATE_BPS / 2, buffer_bytes=300_000,
            mark_threshold_bytes=0, programs=self.QCN,
        )  # fmt: skip
        flows = (flow(f"s{i}", f"r{i}", 2_000_000) for i in range(4))
        what = fixed(spec, *flows, duration_s=2.5, drain_s=20.0, transport=TRANSPORT)
        datapath = LinuxDatapath(SETTINGS)
        try:
            start(datapath, what, HostStack(transport="annulus_dctcp", params=self.LAB))
            assert datapath.shim is not None
            until_done(datapath, what, np.full(what.n_agents, np.inf))
            assert datapath.shim.heard > 20
        finally:
            datapath.close()


@needs(*TRAFFIC)
class TestClasses:
    """Hosts write classes into packets, and ports serve them in strict order, in one buffer."""

    def run(self, classes: int, tags: str, transport: str = "cubic", **params: int) -> tuple[float, float]:
        """Return the longest time in s of two long flows, and the median of 20 short ones that come meanwhile."""
        long = ((f"s{i}", 4_000_000, 0.0) for i in range(2))
        short = (("s2", 10_000, 0.2 + 0.02 * i) for i in range(20))
        what = scenario(*long, *short, topology=DROP_TAIL.replace(classes=classes), duration_s=2.5)
        datapath = LinuxDatapath(SETTINGS)
        try:
            start(datapath, what, HostStack(transport=transport, tags=tags, tag_params=tuple(params.items())))
            _, done = until_done(datapath, what, np.full(what.n_agents, np.inf))
        finally:
            datapath.close()
        took_s = done.flows.finish_s - what.flows(1).start_s
        assert np.isfinite(took_s).all()
        return float(took_s[:2].max()), float(np.median(took_s[2:]))

    @pytest.mark.parametrize("transport", ["cubic", "linux::cubic"])
    def test_short_flows_overtake_those_that_have_sent_much(self, transport: str) -> None:
        long_s, short_s = self.run(2, "pias", transport, after_1_pkts=20)
        assert short_s < 6e-3, "packets of one flow and one that is being sent go before: 1 ms"
        assert long_s < 1.7 * 2 * 4e6 * 8 / GOODPUT_BPS, "they are not starved, whatever they lose"

    def test_sizes_are_told_before_the_first_packet(self) -> None:
        assert self.run(8, "by_size")[1] < 6e-3

    @pytest.mark.parametrize(("classes", "tags"), [(1, "pias"), (2, "none"), (2, "pias")])
    def test_without_two_classes_or_tags_that_differ_they_wait(self, classes: int, tags: str) -> None:
        never = {"after_1_pkts": 0} if tags == "pias" else {}
        assert self.run(classes, tags, "cubic", **never)[1] > 15e-3


@needs(*TRAFFIC)
class TestSharedBuffer:
    SHARED = DROP_TAIL.replace(buffer_bytes=20_000, shared_buffer_bytes=200_000, dt_alpha=1.0)

    def test_a_lone_queue_takes_its_share_of_the_pool(self) -> None:
        network, done = incast(self.SHARED)
        port = network.port("tor->receiver")
        reach = network.reach_bytes(port)
        assert reach == 120_000
        assert reach - 2 * MTU <= done.last["queue_max_bytes"][port] <= reach + 6 * MTU  # ACKs' ports share it too
        assert done.last["dropped_pkts"][port] > 0

    def test_the_pool_marks_before_it_is_full(self) -> None:
        shared = Red(min_bytes=20_000, max_bytes=80_000, max_prob_frac=0.2)
        port = self.SHARED.build().port("tor->receiver")
        _, done = settled(
            lambda: incast(self.SHARED.replace(shared_red=shared)),
            lambda found: not found[1].last["dropped_pkts"][port],
        )
        assert done.grown(port, "marked_pkts") > 50
        assert done.last["dropped_pkts"][port] == 0
        assert done.queue_mean_bytes(port) < 100_000


@needs(*TRAFFIC)
def test_records_are_of_every_port_until_the_rack_is_closed() -> None:
    with Rack(DROP_TAIL.build()) as rack:
        check_columns(rack.switch.records())
        assert rack.switch.records().tx_pkts.shape == (10,)
    with pytest.raises(DatapathError, match="The rack is closed"):
        rack.switch.records()
