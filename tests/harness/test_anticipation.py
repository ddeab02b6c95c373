# SPDX-License-Identifier: BSD-3-Clause
"""Hosts that learn whom to hold: worked arithmetic, what they may know, and what it is for."""

from dataclasses import replace

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowTable
from ncc.core.receivers import parts
from ncc.core.scenario import Nic, Scenario
from ncc.core.workload import Poisson
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.anticipation import History, anticipated, met_periods
from ncc.harness.controller import Controller, Formula
from ncc.harness.datapath import Anticipates, HostStack
from ncc.run.controllers import load_controller
from tests.harness import test_receivers as receivers

G = 1e9
FABRIC = receivers.FABRIC.replace(leaves=4, spines=2, hosts_per_leaf=6, spine_rate_bps=3 * G)
HOSTS = FABRIC.build().group("hosts")
BURST = receivers.BURST.replace(events_per_s=30, fan_in=23, bytes_per_server=64_000)
OTHERS = Poisson(distribution="websearch", load_frac=6.0, sources="hosts", destinations="hosts", link="leaf0->h0_0")


def scenario(**changes: object) -> Scenario:
    workload = (("burst", BURST), ("others", OTHERS))
    own = {"topology": FABRIC, "workload": workload, "duration_s": 0.4, "drain_s": 10.0, "period_s": 1e-3}
    return receivers.scenario(**{**own, **changes})


def table(*rows: tuple[float, int, int, int]) -> FlowTable:
    """Flows (start in ms, source, destination, bytes), hosts by number."""
    start_ms, src, dst, size_bytes = (np.array(column) for column in zip(*rows, strict=True))
    hosts = np.array(HOSTS)
    return FlowTable(start_ms * 1e-3, hosts[src], hosts[dst], size_bytes, np.zeros(len(rows), np.int64))


def burst(at_ms: float, receiver: int = 0, size_bytes: int = 100_000) -> list[tuple[float, int, int, int]]:
    """Seven hosts send at once."""
    return [(at_ms, host, receiver, size_bytes) for host in range(8) if host != receiver]


def held(*rows: tuple[float, int, int, int], seed: int = 1, **changes: object) -> list[bool]:
    found: list[bool] = anticipated(scenario(**changes), table(*rows), "sizes", seed).tolist()
    return found


def test_a_flow_meets_what_waits_and_is_not_longer() -> None:
    """A period carries 125 KB. The 250 KB are served in the second and third; a flow elsewhere meets nothing."""
    flows = table((0.2, 1, 0, 250_000), (0.3, 2, 0, 50_000), (0.4, 3, 5, 50_000), (2.5, 4, 0, 500_000))
    assert met_periods(scenario(), flows) == pytest.approx([0.4, 0.4, 0.0, 0.4])


def test_a_kind_that_met_much_waits_and_others_do_not() -> None:
    """Seven of 100 KB meet 4.8 periods. Their hosts then hold what is as large, to any receiver, and nothing else."""
    later = [(20.0, 1, 5, 100_000), (20.0, 2, 6, 10_000), (20.0, 0, 3, 100_000)]
    assert held(*burst(0.5), *later) == [False] * 7 + [True, False, False]


def test_nobody_knows_before_the_word_has_come() -> None:
    """The receiver speaks at 1 ms, and the word is there at 2 ms; late messages take longer."""
    rows = [*burst(0.5), (1.99, 1, 5, 100_000), (2.01, 1, 6, 100_000)]
    assert held(*rows)[7:] == [False, True]
    assert held(*rows, sharing_delay_periods=3)[7:] == [False, False]


def test_nothing_comes_from_who_has_died_and_from_lost_words() -> None:
    rows = [*burst(0.5), *((20.0, host, 0, 100_000) for host in range(1, 8))]
    receiver = FABRIC.build().nodes[HOSTS[0]].name
    assert held(*rows)[7:] == [True] * 7
    assert held(*rows, sharing_silent=(receiver,))[7:] == [False] * 7
    assert held(*rows, sharing_silent=(receiver,), sharing_silent_from_s=0.01)[7:] == [True] * 7
    lost = [sum(held(*rows, sharing_loss_frac=0.5, seed=seed)[7:]) for seed in range(20)]
    assert 2 < np.mean(lost) < 5


def test_what_comes_later_changes_nothing() -> None:
    made = scenario()
    flows = made.flows(1)
    kinds: tuple[Anticipates, ...] = ("sizes", "services")
    for anticipates in kinds:
        whole = anticipated(made, flows, anticipates, 1)
        half = len(flows) // 2
        first = FlowTable(**{name: column[:half] for name, column in vars(flows).items()})
        part = anticipated(made, first, anticipates, 1)
        assert part.tolist() == whole[:half].tolist()
        assert part.any()


def test_a_kind_is_forgotten_when_it_meets_nothing_any_more() -> None:
    history = History()
    history.learn(3, 16.0)
    assert history.holds(3)
    assert not history.holds(4)
    for _ in range(30):
        history.learn(3, 0.0)
    assert not history.holds(3)


def test_services_tell_flows_of_one_size_apart() -> None:
    rows = [*burst(0.5), (20.0, 1, 5, 100_000), (20.0, 2, 5, 100_000)]
    flows = replace(table(*rows), traffic=np.array([0] * 8 + [1]))
    assert anticipated(scenario(), flows, "services", 1).tolist()[7:] == [True, False]
    assert anticipated(scenario(), flows, "sizes", 1).tolist()[7:] == [True, True]


def ruled(controller: str, made: Scenario, measure: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """FCTs, timeouts, and what receivers measured of what each flow met (NaN: the flow was over, or not measured)."""
    chosen = load_controller(controller)
    assert isinstance(chosen.limit, Formula)
    limiter, datapath, flows = chosen.limit.build(), PacketsimDatapath(), made.flows(1)
    met = np.full(len(flows), np.nan)
    limiter.reset(made, 1)
    now, heard = datapath.start(made, flows, chosen.stack, 1), 0
    while now.flows_finished < len(flows):
        edges, speaks_s = now.edges, heard * made.period_s
        new = np.flatnonzero((flows.start_s < speaks_s) & (flows.start_s >= speaks_s - made.period_s))
        for flow in new if measure else ():
            others = (edges.dst == flows.dst[flow]) & (edges.src != flows.src[flow])
            if ((edges.src == flows.src[flow]) & (edges.dst == flows.dst[flow])).any():
                least = np.minimum(edges.waiting_bytes[others], edges.flows[others] * flows.size_bytes[flow])
                met[flow] = least.sum() * 8 / G / made.period_s
        limits, grants = parts(limiter.decide(now))
        if grants is not None:
            datapath.tell(grants)
        now, heard = datapath.step(limits), heard + 1
    records = datapath.finish().flows
    datapath.close()
    return records.finish_s - flows.start_s, records.timeouts, met


def test_what_hosts_learn_is_what_receivers_measure() -> None:
    """Edges of the run say the same as what is worked out before it, on which flows met two periods and which not."""
    made = scenario()
    flows = made.flows(1)
    _, _, measured = ruled("receiver_history", made, measure=True)
    seen = ~np.isnan(measured)
    worked_out = met_periods(made, flows)
    assert seen.mean() > 0.7
    assert ((measured >= 2) == (worked_out >= 2))[seen].mean() > 0.95
    assert (worked_out[~seen] < 2).mean() > 0.9, "who is over before the receiver speaks has met little"


def test_bursts_are_as_fast_as_announced_ones_and_small_flows_do_not_wait() -> None:
    """After the first burst, with a period of 1 ms."""
    made = scenario()
    announced = made.replace(workload=(("burst", BURST.replace(announced=True)), ("others", OTHERS)))
    flows = made.flows(1)
    later = (flows.traffic == 0) & (flows.start_s > flows.start_s[flows.traffic == 0].min() + 1e-3)
    small = (flows.traffic == 1) & (flows.size_bytes <= 100_000)
    learned, timeouts, _ = ruled("receiver_history", made)
    told, _, _ = ruled("receiver_rule", announced)
    all_held, _, _ = ruled("receiver_rule", made)
    plain, _, _ = ruled("dctcp", made.replace(neighbourhoods="uplink"))
    assert learned[later].mean() < 1.1 * told[later].mean()
    assert told[later].mean() < 0.85 * plain[later].mean()
    assert timeouts[later].sum() == 0
    assert learned[small].mean() < 1.05 * plain[small].mean()
    assert learned[small].mean() < 0.85 * all_held[small].mean()


def test_announced_flows_wait_whatever_was_learned() -> None:
    made = scenario(workload=(("burst", BURST.replace(announced=True)),))
    learned = ruled("receiver_history", made)[0]
    assert learned.tolist() == ruled("receiver_rule", made)[0].tolist()


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"stack.anticipates sizes is about flows to hold: set stack.hold to true"):
        HostStack(anticipates="sizes")
    blind = scenario(nic=Nic(knows="backlog"))
    with pytest.raises(ConfigError, match=r"stack.anticipates services needs Scenario.nic.knows sizes.*got backlog"):
        anticipated(blind, blind.flows(1), "services", 1)


def test_what_anticipates_nothing_has_the_digest_that_it_had() -> None:
    plain = Controller(name="c", stack=HostStack(transport="dctcp", hold=True))
    assert plain.replace(stack=plain.stack.replace(anticipates="sizes")).digest() != plain.digest()
    assert plain.replace(stack=plain.stack.replace(anticipates="nothing")).digest() == plain.digest()
