# SPDX-License-Identifier: BSD-3-Clause
"""One controller at both ends: limits of hosts at their uplink, and the rule of receivers beside them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import idle
from ncc.core.receivers import Edges, parts
from ncc.core.scenario import Nic, Scenario, Transport
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Fixed, Flow
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.controller import PolicyLimit, ReceiverRuleLimit
from ncc.harness.datapath import ComponentStack, HostStack
from ncc.harness.limiter import FixedShare
from ncc.harness.receivers import CROWD, WithReceivers, without_held
from ncc.harness.run import run_once
from ncc.run.controllers import load_controller
from ncc.run.limiters import Decider, LimiterFactory
from tests.harness.bursts import FABRIC, G, scenario


def many_to_one(senders: int = 16, **changes: object) -> Scenario:
    """16 servers answer one front end at once."""
    star = ManyToOne(senders=senders, rate_bps=G, delay_s=1e-5, buffer_bytes=100_000, mark_threshold_bytes=30_000)
    answers = tuple(Flow(start_s=0.01, src=f"s{i}", dst="receiver", size_bytes=32_000) for i in range(16))
    return scenario(**({"topology": star, "workload": (("answers", Fixed(flows=answers)),)} | changes))


def test_a_host_whose_flows_are_all_held_counts_as_idle() -> None:
    now = idle(3, 1)
    now.queued_flows[:], now.held_flows[:] = [1, 2, 2], [1, 1, 0]
    now.queued_bytes[:], now.next_bytes[:], now.wait_s[:] = 5e4, 2e4, 1e-3
    seen = without_held(now)
    assert seen.queued_flows.tolist() == [0, 2, 2]
    for name in ("queued_bytes", "next_bytes", "wait_s"):
        assert getattr(seen, name).tolist() == [0.0, *getattr(now, name)[1:].tolist()]
    assert seen.held_flows is now.held_flows
    assert without_held(idle(3, 1)).queued_flows.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("made", "counts_held", "limited"),
    [
        (many_to_one(period_s=7e-4, neighbourhoods="both"), True, True),
        (many_to_one(period_s=7e-4, neighbourhoods="both"), False, True),
        (many_to_one(CROWD + 1, period_s=7e-4, neighbourhoods="both"), False, False),
        (many_to_one(period_s=7e-4, neighbourhoods="both", sharing_loss_frac=0.1), False, True),
        (many_to_one(period_s=9e-4, neighbourhoods="both", sharing_loss_frac=0.1), False, False),
        (scenario(period_s=9e-4, neighbourhoods="both"), False, True),
    ],
    ids=[
        "a policy decides",
        "a formula",
        "a formula, more hosts",
        "silent receivers",
        "silent, and 100 KB are 0.8 ms",
        "no host's port",
    ],
)
def test_only_the_receiver_decides_at_its_port_unless_a_policy_does(
    made: Scenario, counts_held: bool, limited: bool
) -> None:
    limiter = WithReceivers(FixedShare(), ReceiverRuleLimit().build(), counts_held=counts_held, answered=True)
    limiter.reset(made, 1)
    busy = idle(made.n_agents, len(made.network().neighbourhoods))
    busy.queued_flows[:] = 1
    limits = [parts(limiter.decide(busy))[0] for _ in range(2)][-1]
    assert np.isfinite(limits).all() if limited else np.isinf(limits).all()


@pytest.mark.parametrize(
    ("made", "counts_held", "starts"),
    [
        (many_to_one(neighbourhoods="both", period_s=1.9e-4), True, True),
        (many_to_one(neighbourhoods="both", period_s=2.1e-4), True, False),
        (many_to_one(neighbourhoods="both", period_s=1.9e-4), False, False),
        (scenario(neighbourhoods="both"), True, False),
    ],
    ids=["a deep buffer", "four periods are more than 100 KB", "a formula", "no host's port"],
)
def test_only_the_receiver_says_when_flows_begin_at_its_port(made: Scenario, counts_held: bool, starts: bool) -> None:
    """A host has a limit there from its second busy period in a row on."""
    limiter = WithReceivers(FixedShare(), ReceiverRuleLimit().build(), counts_held=counts_held, answered=True)
    limiter.reset(made, 1)
    now, limited = idle(made.n_agents, len(made.network().neighbourhoods)), []
    for busy in (0, 1, 1, 0, 2):
        now.queued_flows[0] = busy
        limited.append(bool(np.isfinite(parts(limiter.decide(now))[0][0])))
    assert limited == ([False, False, True, False, False] if starts else [True] * 5)


@pytest.mark.parametrize(
    ("changes", "answered", "speaks"),
    [
        ({"period_s": 7e-4}, True, True),
        ({"period_s": 9e-4}, True, False),
        ({"period_s": 3.6e-4, "sharing_delay_periods": 2}, True, True),
        ({"period_s": 3.8e-4, "sharing_delay_periods": 2}, True, False),
        ({"period_s": 3e-4, "sharing_delay_periods": 3}, True, False),
        ({"period_s": 4e-4, "sharing_delay_periods": 2, "sharing_unsynchronised": True}, True, False),
        ({"sharing_loss_frac": 0.1}, True, False),
        ({"period_s": 9e-4, "sharing_loss_frac": 0.1}, False, True),
        ({"period_s": 9e-4, "transport": Transport(connections_per_pair=1)}, True, True),
        ({"period_s": 9e-4, "transport": Transport(handshake=False)}, True, True),
    ],
)
def test_a_receiver_is_silent_where_its_words_come_too_late(
    changes: dict[str, Any], answered: bool, speaks: bool
) -> None:
    """Its port holds 0.8 ms, and an RTT takes 0.066. It speaks in any case where SYN-ACKs say nothing."""
    made = many_to_one(neighbourhoods="both", **changes)
    limiter = WithReceivers(FixedShare(), ReceiverRuleLimit().build(), answered=answered)
    limiter.reset(made, 1)
    network = made.network()
    (receiver,), sender = network.group("receiver"), network.group("senders")[0]
    one, much = np.ones(1, np.int64), np.full(1, 1e5)
    edges = Edges(one * sender, one * receiver, one, much, much, np.zeros(1), np.full(1, 1e-5))
    _, grants = parts(limiter.decide(replace(idle(made.n_agents, 1), time_s=1.0, edges=edges)))
    assert grants is not None
    assert len(grants) == speaks


@pytest.mark.parametrize("policy", ["ncc", "local_tuned"])
def test_both_ends_of_one_port_do_not_wait_for_each_other(policy: str) -> None:
    """Hosts that a receiver held counted as busy, the others had small shares, and all took 1.5 times DCTCP's time."""
    factory, made = LimiterFactory(None), many_to_one(neighbourhoods="uplink")
    limit = load_controller(policy).limit
    ours = load_controller("ncc")
    ours = ours.replace(limit=limit.replace(stack="own") if isinstance(limit, PolicyLimit) else limit)
    means = []
    for controller in (ours, load_controller("dctcp")):
        limiter = factory(controller, made)
        run = run_once(PacketsimDatapath(), made, controller, limiter, 1, flow_seed=1).require_valid()
        means.append(float((run.records.flows.finish_s - run.flows.start_s).mean()))
    assert means[0] < 0.8 * means[1]


def test_hosts_do_not_wait_for_held_ones_where_messages_get_lost() -> None:
    """They took 1.4 times DCTCP's time, as stale messages of held hosts kept the others back."""
    factory, made = LimiterFactory(None), many_to_one(neighbourhoods="both", sharing_loss_frac=0.5)
    means = []
    for controller in (load_controller("ncc"), load_controller("dctcp")):
        run = run_once(PacketsimDatapath(), made, controller, factory(controller, made), 1, flow_seed=1).require_valid()
        means.append(float((run.records.flows.finish_s - run.flows.start_s).mean()))
    assert means[0] < 0.8 * means[1]


def test_receivers_alone_decide_where_hosts_do_not_know_sizes() -> None:
    factory, made = LimiterFactory(None), many_to_one(neighbourhoods="both", nic=Nic(knows="backlog"))
    ours, alone = load_controller("ncc"), load_controller("receiver_rule_blind")
    assert factory.decider(ours, made)[0] is Decider.RECEIVERS
    limiter, only = factory(ours, made), factory(alone, made)
    for each in (limiter, only):
        each.reset(made, 1)
    stack = factory.resolved(ours, made).stack
    datapath, flows, said = PacketsimDatapath(), made.flows(1), 0
    now = datapath.start(made, flows, stack, 1)
    while now.flows_finished < len(flows):
        limits, grants = parts(limiter.decide(now))
        expected = parts(only.decide(now))[1]
        assert np.isinf(limits).all()
        assert grants is not None
        assert expected is not None
        np.testing.assert_array_equal(grants.start_s, expected.start_s)
        said += len(grants)
        datapath.tell(grants)
        now = datapath.step(limits)
    datapath.close()
    assert said > 0


def test_a_controller_with_a_rule_of_receivers_asks_for_them() -> None:
    ours, plain = load_controller("ncc"), scenario(neighbourhoods="uplink")
    assert ours.placed(plain) == ours.placed(scenario()) == scenario(neighbourhoods="both")
    assert load_controller("dctcp").placed(plain) is plain
    assert ours.stack.answer_frac == 0.6


def test_the_formula_at_both_ends_is_ncc_with_the_tuned_formula_in_place_of_its_policy() -> None:
    both, ours, tuned = (load_controller(name) for name in ("local_both", "ncc", "local_tuned"))
    assert (both.limit, both.receivers) == (tuned.limit, ours.receivers)
    assert (both.stack.hold, both.stack.answer_frac) == (ours.stack.hold, ours.stack.answer_frac)


def test_a_policy_brings_its_stack_but_for_components_and_how_flows_wait() -> None:
    ours = load_controller("ncc")
    across = (ComponentStack(component="across", transport="bbr"),)
    own = ours.replace(stack=ours.stack.replace(components=across)).over(HostStack(transport="cubic"))
    assert own.stack == HostStack(transport="cubic", hold=True, answer_frac=0.6, components=across)


@pytest.mark.parametrize("uplink", ["local", "shortest_first"])
def test_hosts_may_have_limits_at_their_uplink_beside(uplink: str) -> None:
    """Eight hosts under an uplink of 1 Gbit/s each: limits are those of the one, messages those of the other."""
    policies, plain = LimiterFactory(None), load_controller(uplink)
    both = scenario(topology=FABRIC.replace(spine_rate_bps=G), neighbourhoods="both")
    beside = policies.resolved(plain.replace(stack=plain.stack.replace(hold=True), receivers=ReceiverRuleLimit()))
    assert beside.stack == policies.resolved(plain).stack.replace(hold=True)
    assert beside.digest() != policies.resolved(plain).digest()
    limiter, alone, only = policies(beside, both), policies(plain, both), ReceiverRuleLimit().build()
    for each in (limiter, alone, only):
        each.reset(both, 1)
    datapath, flows, limited, said = PacketsimDatapath(), both.flows(1), 0, 0
    now = datapath.start(both, flows, beside.stack, 1)
    while now.flows_finished < len(flows):
        limits, grants = parts(limiter.decide(now))
        np.testing.assert_array_equal(limits, parts(alone.decide(without_held(now)))[0])
        expected = only.grants(now)
        assert grants is not None
        np.testing.assert_array_equal(grants.start_s, expected.start_s)
        limited, said = limited + int(np.isfinite(limits).sum()), said + len(grants)
        datapath.tell(grants)
        now = datapath.step(limits)
    assert datapath.finish().flows.timeouts.sum() <= 0.05 * len(flows)
    datapath.close()
    assert limited > 0
    assert said > len(flows)


def test_a_receiver_rule_beside_itself_is_refused() -> None:
    beside = load_controller("ncc")
    with pytest.raises(ConfigError, match="has the rule of receivers as its limit: leave `receivers` out"):
        beside.replace(limit=ReceiverRuleLimit())
