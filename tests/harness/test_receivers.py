# SPDX-License-Identifier: BSD-3-Clause
"""The rule of receivers: worked arithmetic, what is told and what is not, and what it is for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.flows import FlowRecords
from ncc.core.measurement import Measurement, idle
from ncc.core.receivers import Edges, Grants, parts
from ncc.core.scenario import Scenario, Transport
from ncc.core.topologies import Rack
from ncc.core.workload import Fixed, Flow
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import Controller, Formula, ReceiverRuleLimit
from ncc.harness.datapath import HostStack
from ncc.harness.receivers import ReceiverRule
from ncc.run.controllers import load_controller
from ncc.run.plan import require_parts
from tests.datapaths.runs import Simulator
from tests.harness.bursts import BURST, FABRIC, HOSTS, G, scenario


def rule(**changes: object) -> ReceiverRule:
    values = {
        "ahead_frac": 0.5,
        "window_frac": 0.5,
        "floor_frac": 0.1,
        "headroom_frac": 0.0,
        "tolerance_s": 5e-5,
        "order": "remaining",
    } | changes
    made = ReceiverRule(**values)  # type: ignore[arg-type]
    made.reset(scenario(), 1)
    return made


def at(time_s: float, *rows: tuple[int, int, int, float, float, float, float]) -> Measurement:
    """A measurement with these edges: source, destination (numbers of hosts), flows, waiting, next, received, age."""
    columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else [np.zeros(0, np.int64)] * 7
    hosts = np.array(HOSTS)
    edges = Edges(
        hosts[columns[0].astype(int)],
        hosts[columns[1].astype(int)],
        columns[2],
        *(column.astype(float) for column in columns[3:]),
    )
    return replace(idle(scenario().n_agents, 2), time_s=time_s, edges=edges)


def told(made: ReceiverRule, now: Measurement) -> Grants:
    limits, grants = parts(made.decide(now))
    assert np.isinf(limits).all()
    assert grants is not None
    grants.check(FABRIC.build())
    return grants


def test_flows_start_when_what_is_ahead_fits_half_the_buffer() -> None:
    """Three of 100 packets: 153,800 bytes on the wire each, at 1 Gbit/s 1.2304 ms; half of the buffer is 0.4 ms."""
    size = 146_000.0
    grants = told(rule(), at(1.0, *[(source, 0, 1, size, size, 0.0, 1e-5) for source in (1, 2, 3)]))
    assert grants.start_s - 1.0 == pytest.approx([0.0, 1.2304e-3 - 4e-4, 2 * 1.2304e-3 - 4e-4])
    assert grants.rate_bps.tolist() == [G] * 3
    assert grants.window_pkts.tolist() == [33] * 3, "half of 100 KB in packets of 1500 bytes"


def test_a_flow_alone_has_no_limit() -> None:
    grants = told(rule(), at(1.0, (1, 0, 1, 1e6, 1e6, 0.0, 1e-5)))
    assert (grants.start_s[0], grants.rate_bps[0], grants.window_pkts[0]) == (1.0, np.inf, 0)


def test_receivers_do_not_know_each_other() -> None:
    both = told(rule(), at(1.0, (1, 0, 1, 1e6, 1e6, 0.0, 1e-5), (2, 5, 1, 1e6, 1e6, 0.0, 1e-5)))
    assert np.isinf(both.rate_bps).all()
    assert both.start_s.tolist() == [1.0, 1.0]


def test_the_shortest_goes_first_and_without_sizes_the_oldest() -> None:
    rows = [(1, 0, 1, 1e6, 1e6, 0.0, 3e-4), (2, 0, 1, 1e4, 1e4, 0.0, 1e-4), (3, 0, 1, 1e5, 1e5, 0.0, 2e-4)]
    assert np.argsort(told(rule(), at(1.0, *rows)).start_s).tolist() == [1, 2, 0]
    assert np.argsort(told(rule(order="arrival", ahead_frac=0.0), at(1.0, *rows)).start_s).tolist() == [0, 2, 1]
    long = [(1, 0, 1, 1e6, 1e6, 2e5, 3e-4), *rows[1:]]
    assert np.argsort(told(rule(order="arrival", ahead_frac=0.0), at(1.0, *long)).start_s).tolist() == [2, 1, 0]


def test_the_rest_of_an_edge_waits_for_its_own_turn() -> None:
    """An edge with 1 MB and 10 KB is no obstacle for 20 KB of another beyond its 10 KB."""
    grants = told(rule(), at(1.0, (1, 0, 2, 1.01e6, 1e4, 0.0, 1e-5), (2, 0, 1, 2e4, 2e4, 0.0, 1e-5)))
    assert grants.start_s.tolist() == [1.0, 1.0]


def test_only_changes_are_told() -> None:
    made, size = rule(), 146_000.0
    first = [(source, 0, 1, size, size, 0.0, 1e-5) for source in (1, 2, 3)]
    assert len(told(made, at(1.0, *first))) == 3
    later = [(source, 0, 1, size - got, size - got, got, 1.1e-4) for source, got in ((1, 12_000.0), (2, 0.0), (3, 0.0))]
    assert len(told(made, at(1.0001, *later))) == 0, "the work ahead has fallen as the time has passed"
    later = [(*row[:6], 2.1e-4) for row in later]
    assert len(told(made, at(1.0002, *later))) == 3, "the first has got stuck: it is told again, and so are the others"
    alone = [(3, 0, 1, size, size, 0.0, 3.1e-4)]
    last = told(made, at(1.0003, *alone))
    assert (len(last), last.rate_bps[0], last.start_s[0]) == (1, np.inf, 1.0003)


def test_a_new_flow_of_a_pair_that_was_told_is_told_again() -> None:
    made = rule()
    assert len(told(made, at(1.0, (1, 0, 1, 1e5, 1e5, 0.0, 1e-5)))) == 1
    assert len(told(made, at(1.0001, (1, 0, 1, 9e4, 9e4, 1e4, 1.1e-4)))) == 0
    assert len(told(made, at(1.0002, (1, 0, 2, 18e4, 8e4, 2e4, 1e-5)))) == 1
    assert len(told(made, at(1.0003))) == 0
    assert len(told(made, at(1.0004, (1, 0, 1, 1e5, 1e5, 0.0, 1e-5)))) == 1


def test_receivers_of_a_shuffle_take_different_senders_first() -> None:
    """Four hosts have equal flows to each other; the age of one pair differs by less than ten periods."""
    made, four = rule(), range(4)
    rows = [(a, b, 1, 1e6, 1e6, 0.0, 1e-5 * (1 + (a == 0))) for a in four for b in four if a != b]
    grants = told(made, at(1.0, *rows))
    first = grants.start_s == 1.0
    assert sorted(grants.dst[first]) == [HOSTS[host] for host in four]
    assert len(set(grants.src[first].tolist())) == 4


def test_who_has_begun_and_is_overtaken_keeps_the_floor() -> None:
    made = rule()
    told(made, at(1.0, (1, 0, 1, 3e6, 3e6, 0.0, 1e-5)))
    both = told(made, at(1.0001, (1, 0, 1, 3e6, 3e6, 1e4, 1e-4), (2, 0, 1, 2e5, 2e5, 0.0, 1e-5)))
    rates = dict(zip(both.src.tolist(), both.rate_bps.tolist(), strict=True))
    assert rates == {HOSTS[1]: pytest.approx(0.1 * G), HOSTS[2]: G}


def test_who_is_first_and_comes_slowly_is_told_again() -> None:
    """The message that says that it has no limit any more may be lost. A period carries 12.5 KB."""
    made = rule()
    told(made, at(1.0, (1, 0, 1, 3e6, 3e6, 0.0, 1e-5)))
    told(made, at(1.0001, (1, 0, 1, 3e6, 3e6, 1e4, 1e-4), (2, 0, 1, 2e5, 2e5, 0.0, 1e-5)))
    assert told(made, at(1.0002, (1, 0, 1, 3e6, 3e6, 2e4, 2e-4))).rate_bps.tolist() == [np.inf]
    assert told(made, at(1.0003, (1, 0, 1, 3e6, 3e6, 2.6e4, 3e-4))).rate_bps.tolist() == [np.inf]
    assert len(told(made, at(1.0004, (1, 0, 1, 3e6, 3e6, 3.3e4, 4e-4)))) == 0


def test_nobody_waits_for_flows_whose_links_cannot_fill_the_port() -> None:
    """A port of 4 Gbit/s, links of 1: of five flows of 1 MB each, four begin, and the fifth waits for 3.95 MB."""
    rack = Rack(hosts=5, host_rate_bps=G, uplink_rate_bps=4 * G, remotes=1, remote_rate_bps=4 * G, buffer_bytes=100_000)
    network, one = rack.build(), Fixed(flows=(Flow(start_s=0.0, src="h0", dst="r0", size_bytes=9),))
    made = rule()
    made.reset(scenario(topology=rack, workload=(("one", one),)), 1)
    five, (remote,) = np.array(network.group("hosts")), network.group("remotes")
    whole = np.full(5, 1e6)
    edges = Edges(five, np.full(5, remote), np.ones(5, np.int64), whole, whole, np.zeros(5), np.full(5, 1e-5))
    grants = parts(made.decide(replace(idle(5, 1), time_s=1.0, edges=edges)))[1]
    assert grants is not None
    on_wire = 1e6 + 78 * np.ceil(1e6 / 1460)
    assert grants.start_s - 1.0 == pytest.approx([0, 0, 0, 0, (4 * on_wire - 50_000) * 8 / (4 * G)])


def test_nobody_waits_for_a_flow_that_something_else_holds_back() -> None:
    """The first brings 1 KB in a period that could carry 12.5: the second begins once that has been so for a while."""
    made, starts = rule(), []
    for epoch in range(6):
        got, now_s, age_s = 1000.0 * epoch, 1.0 + 1e-4 * epoch, 1e-5 + 1e-4 * epoch
        rows = [(1, 0, 1, 3e6 - got, 3e6 - got, got, age_s), (2, 0, 1, 4e6, 4e6, 0.0, age_s)]
        grants = told(made, at(now_s, *rows))
        starts.append([start_s - now_s for start_s in grants.start_s[grants.src == HOSTS[2]].tolist()])
    assert starts[0][0] > 0.02
    assert [0.0] in starts[3:]
    assert all(start[0] > 0.02 for start in starts[:3] if start)


def test_late_words_let_flows_send_until_they_come() -> None:
    """A flow that has begun and is overtaken by 60 KB, 0.49 ms: slow if the next word comes in 0.1 ms, not in 0.5."""
    rates = []
    for periods in (1, 5):
        made = rule(ahead_frac=0.0)
        made.reset(scenario(sharing_delay_periods=periods), 1)
        told(made, at(1.0, (1, 0, 1, 3e6, 3e6, 0.0, 1e-5)))
        both = told(made, at(1.0001, (1, 0, 1, 3e6, 3e6, 1e4, 1e-4), (2, 0, 1, 58_400.0, 58_400.0, 0.0, 1e-5)))
        rates.append(dict(zip(both.src.tolist(), both.rate_bps.tolist(), strict=True))[HOSTS[1]])
    assert rates == [pytest.approx(0.1 * G), G]


@given(
    st.lists(
        st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 10**7), st.floats(0, 1), st.floats(0, 1e7)),
        min_size=1,
        max_size=12,
        unique_by=lambda row: row[0],
    ),
    st.sampled_from(["remaining", "arrival"]),
)
def test_grants_fit_the_port(rows: list[tuple[int, int, int, float, float]], order: str) -> None:
    """Starts are never past, the first flow starts at once, and what starts at once fits A plus one flow."""
    edges = [
        (src, 0, flows, waiting, waiting if flows == 1 else waiting * part // flows, got, 1e-5)
        for src, flows, waiting, part, got in rows
    ]
    grants = told(rule(order=order), at(1.0, *edges))
    assert len(grants) == len(edges)
    assert (grants.start_s >= 1.0).all()
    assert grants.start_s.min() == 1.0
    assert (grants.rate_bps >= 0.1 * G).all()


@pytest.mark.parametrize("fracs", [{"ahead_frac": 0.6, "window_frac": 0.5}, {"window_frac": 0.5}], ids=str)
def test_windows_beyond_the_buffer_are_refused(fracs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"does not fit the buffer, got 0.6 and 0.5"):
        ReceiverRuleLimit(**fracs)


@pytest.mark.parametrize("name", ["receiver_rule", "ictcp", "flowtune", "sicc"])
def test_a_scenario_without_receivers_is_refused_before_it_runs(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' needs receivers that tell their senders"):
        require_parts(scenario(neighbourhoods="uplink"), [load_controller(name)])


def test_what_holds_nothing_has_the_digest_that_it_had() -> None:
    plain = Controller(name="c", stack=HostStack(transport="dctcp"))
    assert plain.digest() == "a20d45c18f1a976c"
    for later in ({"hold": True}, {"messages": "instant"}, {"hold": True, "answer_frac": 0.6}):
        assert plain.replace(stack=plain.stack.replace(**later)).digest() != plain.digest()
    assert scenario(neighbourhoods="uplink").digest() != scenario().digest()
    together = scenario(workload=(("burst", BURST.replace(receivers=2)),))
    assert together.digest() != scenario().digest()


SEEDS = range(1, 13)
"""Seeds over which FCTs are compared that are near each other."""


def burst_fct_s(
    controller: str,
    made: Scenario,
    simulator: Simulator = PacketsimDatapath,
    transport: str | None = None,
    seeds: Sequence[int] = (1,),
) -> tuple[float, int]:
    """Mean FCT, and timeouts."""
    records = [flow_records(controller, made, simulator, transport, seed) for seed in seeds]
    took_s = [each.finish_s - made.flows(seed).start_s for each, seed in zip(records, seeds, strict=True)]
    return float(np.concatenate(took_s).mean()), int(sum(each.timeouts.sum() for each in records))


def flow_records(
    controller: str, made: Scenario, simulator: Simulator, transport: str | None = None, seed: int = 1
) -> FlowRecords:
    chosen = load_controller(controller)
    if transport is not None:
        chosen = chosen.replace(stack=HostStack(transport=transport, hold=chosen.stack.hold))
    assert isinstance(chosen.limit, Formula)
    limiter, datapath, flows = chosen.limit.build(), simulator(), made.flows(seed)
    try:
        limiter.reset(made, 1)
        now = datapath.start(made, flows, chosen.stack, 1)
        while now.flows_finished < len(flows):
            limits, grants = parts(limiter.decide(now))
            if grants is not None:
                datapath.tell(grants)
            now = datapath.step(limits)
        return datapath.finish().flows
    finally:
        datapath.close()


@pytest.mark.parametrize(
    ("name", "transport"), [("rule", None), ("rule_blind", None), ("rule", "cubic"), ("rule", "bbr")]
)
def test_an_incast_has_no_timeouts_and_a_shorter_mean(name: str, transport: str | None) -> None:
    plain, _ = burst_fct_s("dctcp", scenario(neighbourhoods="uplink"))
    ruled, timeouts = burst_fct_s(f"receiver_{name}", scenario(), transport=transport)
    oracle, _ = burst_fct_s("receiver_oracle", scenario())
    assert timeouts == 0
    assert ruled < 0.85 * plain
    assert ruled < 1.1 * oracle


@pytest.mark.parametrize("changes", [{"handshake": False}, {"connections_per_pair": 1}, {}])
def test_every_kind_of_connection_is_ruled(changes: dict[str, object]) -> None:
    made = scenario(transport=Transport(recovery="modern", **changes))  # type: ignore[arg-type]
    plain, _ = burst_fct_s("dctcp", made.replace(neighbourhoods="uplink"), seeds=SEEDS)
    ruled, _ = burst_fct_s("receiver_rule", made, seeds=SEEDS)
    assert ruled < 0.85 * plain
    assert burst_fct_s("receiver_rule", made)[1] == 0, "no timeout"


FAULTS = [
    {"sharing_loss_frac": 0.3},
    {"sharing_unsynchronised": True},
    {"sharing_delay_periods": 3},
    {"sharing_silent": (FABRIC.build().nodes[HOSTS[0]].name,)},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: next(iter(fault)))
def test_faults_of_messages_cost_little_and_stop_nobody(fault: dict[str, object]) -> None:
    plain, _ = burst_fct_s("dctcp", scenario(neighbourhoods="uplink"), seeds=SEEDS)
    well, _ = burst_fct_s("receiver_rule", scenario(), seeds=SEEDS)
    ill, _ = burst_fct_s("receiver_rule", scenario(**fault), seeds=SEEDS)
    assert ill < (well + plain) / 2
    _, timeouts = burst_fct_s("dctcp", scenario(neighbourhoods="uplink"))
    assert burst_fct_s("receiver_rule", scenario(**fault))[1] <= timeouts


def test_messages_take_at_most_a_twentieth_of_a_receivers_uplink() -> None:
    """On the wire, while two or more senders have flows to it."""
    made, bits, busy_s = scenario(), 0.0, 0.0
    limiter, datapath = load_controller("receiver_rule").limit.build(), PacketsimDatapath()  # type: ignore[union-attr]
    limiter.reset(made, 1)
    now = datapath.start(made, made.flows(1), load_controller("receiver_rule").stack, 1)
    while now.flows_finished < len(made.flows(1)):
        limits, grants = parts(limiter.decide(now))
        assert grants is not None
        busy_s += made.period_s * float((np.unique(now.edges.dst, return_counts=True)[1] > 1).sum())
        bits += 8 * (52 + 38) * len(grants)
        datapath.tell(grants)
        now = datapath.step(limits)
    datapath.close()
    assert bits / busy_s < 0.05 * G


def test_options_of_messages_need_receivers() -> None:
    for option in ({"sharing_unsynchronised": True}, {"sharing_silent_from_s": 1e-3}):
        with pytest.raises(ConfigError, match=f"{next(iter(option))} needs receivers"):
            scenario(neighbourhoods="uplink", **option)
        assert scenario(**option).digest() != scenario().digest()


def test_bursts_of_several_receivers_begin_together() -> None:
    flows = scenario(workload=(("burst", BURST.replace(receivers=3, jitter_s=0.0)),)).flows(1)
    for start_s in np.unique(flows.start_s):
        now = flows.dst[flows.start_s == start_s]
        assert sorted(np.unique(now, return_counts=True)[1].tolist()) == [24, 24, 24]
    with pytest.raises(ConfigError, match="receivers must be at most the 8 hosts"):
        scenario(workload=(("burst", BURST.replace(receivers=9)),))


def test_many_flows_of_a_pair_meet_in_the_port() -> None:
    """28 flows of each of 7 pairs: a pair has one start. The rule has fewer timeouts, and with 4 flows each none."""

    def timeouts(controller: str, fan_in: int) -> int:
        return burst_fct_s(controller, scenario(workload=(("burst", BURST.replace(fan_in=fan_in)),)))[1]

    assert timeouts("receiver_rule", 28) == 0
    assert 0 < timeouts("receiver_rule", 200) < 0.5 * timeouts("dctcp", 200)
    assert timeouts("receiver_rule_blind", 200) < 8
