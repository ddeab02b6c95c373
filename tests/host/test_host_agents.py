# SPDX-License-Identifier: BSD-3-Clause
"""Agents on hosts, which know only messages, decide like one limiter that knows everything a period late."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from ncc.agents.policy import NumberPolicy
from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray
from ncc.core.measurement import Measurement
from ncc.core.receivers import parts
from ncc.core.scenario import Nic, Scenario
from ncc.core.seeding import derive_seed
from ncc.core.topologies import LeafSpine
from ncc.core.value import from_dict
from ncc.core.workload import Incast, Permutation
from ncc.envs.action import rate_map
from ncc.envs.observation import ObservationSpec, SharedObserver, aged, names_of, obs_dim
from ncc.envs.observation.losses import Losses
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.scales import scales_of
from ncc.harness.batch import ObsArray
from ncc.harness.controller import Controller, HostsLimit
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, run_once
from ncc.host.guard import GuardSettings
from ncc.host.host_agents import SWITCHES, HostAgents, _peer
from ncc.host.message import HEAD
from ncc.host.neighbourhood import NeighbourhoodSpec, limiter_of
from ncc.policies import PolicyLimiter, RateBounds
from ncc.policies.file import PolicyFile
from ncc.policies.limits import HeldLimiter
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import measured, rack
from tests.host.policies import untrained
from tests.host.test_limiter import INCAST, drawn


class Both:
    """A limiter that decides, and another that must decide the same."""

    def __init__(self, first: RateLimiter, second: RateLimiter) -> None:
        self.first, self.second, self.seen, self.n = first, second, set[float](), 0

    def reset(self, scenario: Scenario, seed: int) -> None:
        self.first.reset(scenario, seed)
        self.second.reset(scenario, seed)

    def decide(self, measurement: Measurement) -> FloatArray:
        limits, _ = parts(self.first.decide(measurement))
        np.testing.assert_array_equal(parts(self.second.decide(measurement))[0], limits)
        self.seen |= set(limits.tolist())
        self.n += 1
        return limits


def run_with(limiter: RateLimiter, scenario: Scenario, seed: int = 1) -> Run:
    controller = LimiterFactory(None).resolved(load_controller("ncc"))
    return run_once(PacketsimDatapath(), scenario, controller, limiter, seed, flow_seed=5)


def with_bounds(file: PolicyFile, bounds: RateBounds) -> PolicyFile:
    return replace(file, header=file.header.replace(limits=bounds))


TWO_AREAS = Scenario(
    name="leaves",
    topology=LeafSpine(leaves=2, spines=2, hosts_per_leaf=3, host_rate_bps=1e9, spine_rate_bps=1e9),
    workload=(
        ("pairs", Permutation(size_bytes=400_000, hosts="hosts")),
        (
            "queries",
            Incast(events_per_s=2000, fan_in=3, bytes_per_server=30_000, sources="leaf0", destinations="leaf1"),
        ),
    ),
    duration_s=0.02,
    drain_s=1.0,
)


@pytest.mark.parametrize("scenario", [INCAST, TWO_AREAS], ids=["an incast", "two racks with two ways up"])
def test_agents_that_tell_each_other_decide_as_one_that_sees_all(scenario: Scenario, policy_file: PolicyFile) -> None:
    """On packetsim, to the last bit: from encoded, signed messages, each an epoch old when it is used."""
    agents = HostAgents(policy_file)
    both = Both(limiter_of(policy_file), agents)
    run = run_with(both, scenario)
    assert run.problems == ()
    assert len(both.seen) > 2
    messages = agents.facts["messages"]
    n, near = len(agents.agents), agents.agents[0].exchange.n_peers
    assert messages["sent"] == n * both.n
    assert messages["received"] == n * (near + 1) * (both.n - 1)  # neighbours and switch; the last are not read
    assert messages["stale_peers"] == n * near  # in the first epoch nobody has said anything
    assert not any(messages[why] for why in ("forged", "replayed", "late", "unknown_sender", "values"))


@pytest.mark.parametrize("kind", ["each", "pooled", "none"])
def test_whatever_way_neighbours_are_seen(kind: Literal["each", "pooled", "none"], policy_file: PolicyFile) -> None:
    spec = ObservationSpec(neighbours=kind)
    _, file = untrained(policy_file, spec, obs_dim(spec, INCAST))
    both = Both(limiter_of(file), HostAgents(file))
    run_with(both, INCAST.replace(duration_s=0.05))
    assert len(both.seen) > 2


LOSSY = INCAST.replace(
    topology=INCAST.topology.replace(senders=6, rate_bps=1e9, buffer_bytes=100_000),
    workload=(*INCAST.workload, ("long", Permutation(size_bytes=2_000_000, hosts="senders"))),
    duration_s=0.06,
    period_s=1e-4,
    sharing_loss_frac=0.25,
    transport=INCAST.transport.replace(recovery="classic"),  # whose timeouts leave room
)


class Watched(SharedObserver):
    """An observer that keeps what it has observed last."""

    def observe_messages(self, *args: Any, **how: Any) -> ObsArray:
        self.last = super().observe_messages(*args, **how)
        return self.last


def test_agents_decide_by_a_residual_as_the_environment_does(
    learned: PolicyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same guard and formula on the same numbers: who goes first by turns, what is stale, where room is wasted."""
    assert learned.header.action.within is not None
    assert not learned.header.action.within.outside(LOSSY)
    actions, seed = rate_map(learned.header.action, learned.header.observation), 5
    observer = SharedObserver(learned.header.observation)
    environment = PolicyLimiter(NumberPolicy(learned.policy.layers), observer, actions)
    environment.reset(LOSSY, seed)
    monkeypatch.setattr("ncc.host.neighbourhood.SharedObserver", Watched)
    agents, reliable = HostAgents(learned), LOSSY.replace(sharing_loss_frac=0)
    agents.reset(reliable, seed)
    losses = Losses(LOSSY, (), derive_seed(seed, "sharing"))
    names = names_of(learned.header.observation, 0)
    seen = []
    datapath = PacketsimDatapath()
    measurement = datapath.start(LOSSY, LOSSY.flows(3), learned.header.stack, 1)
    try:
        for epoch in range(400):
            if epoch:
                lose(agents, losses.arrivals()[0])
            obs = environment.observer.observe(measurement)
            limits = environment.actions.rates_bps(environment.policy.act(obs, None), obs)
            decided = agents.decide(measurement)
            own = [agent.neighbourhood._observer.last[0] for agent in agents.agents]  # type: ignore[attr-defined]
            np.testing.assert_allclose(own, obs, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(decided, limits, rtol=1e-4)
            seen.append(obs)
            measurement = datapath.step(decided)
    finally:
        datapath.close()
    whole = dict(zip(names, np.concatenate(seen).T, strict=True))
    assert (whole["age max"] > aged(2.5)).mean() > 0.05
    assert (whole["wasted room"] > 1).any()
    assert len(np.unique(whole["hosts before"])) > 3


def test_a_residual_outside_of_its_ranges_says_so_and_is_its_formula(learned: PolicyFile, learned_path: Path) -> None:
    for name in (str(learned_path), f"hosts:{learned_path}"):
        warnings = LimiterFactory(None).warnings
        assert warnings(load_controller(name), LOSSY) == ()
        assert warnings(load_controller(name), LOSSY.replace(nic=Nic(knows="backlog"))) == (
            "hosts know the backlog of their flows, and its policy is trusted with their sizes",
            "hosts have the limits of the formula LOCAL",
        )
    blind, spec = LOSSY.replace(nic=Nic(knows="backlog"), sharing_loss_frac=0), learned.header.observation
    observer, actions, agents = SharedObserver(spec), rate_map(learned.header.action, spec), HostAgents(learned)
    observer.reset(blind)
    actions.reset(blind)
    agents.reset(blind, 1)
    limits: FloatArray = np.full(6, np.inf)
    for measurement in (measured(blind), *drawn(blind, 40, 3)[1:]):
        put = replace(measurement, rate_limit_bps=limits)
        obs, limits = observer.observe(put), agents.decide(put)
        for number in (-1.0, 0.0, 1.0):  # whatever a policy says
            np.testing.assert_allclose(limits, actions.rates_bps(np.full(6, number), obs), rtol=1e-5)


def lose(agents: HostAgents, came: BoolArray) -> None:
    """Leave messages out of the boxes of agents, [n_agents, neighbours + 1] of what comes; the last is the uplink's."""
    n = len(agents.agents)
    for row, (agent, kept) in enumerate(zip(agents.agents, came.tolist(), strict=True)):
        senders = [*(_peer((row + 1 + j) % n).id for j in range(n - 1)), _peer(0, SWITCHES).id]
        keeps, box = dict(zip(senders, kept, strict=True)), agent.exchange._box  # type: ignore[attr-defined]
        for message in [box.popleft() for _ in range(len(box))]:
            if keeps[HEAD.unpack_from(message)[4]]:
                box.append(message)


def test_agents_hold_what_the_file_says(policy_file: PolicyFile) -> None:
    """The same as `HeldLimiter` does for one that sees all."""
    bounds = RateBounds(min_rate_frac=0.05, max_rate_frac=1.0, rise_ratio=1.5, fall_ratio=1.2)
    slow = with_bounds(policy_file, bounds)
    both = Both(HeldLimiter(limiter_of(slow), bounds), HostAgents(slow))
    assert run_with(both, INCAST).problems == ()
    assert len(both.seen) > 10


def test_the_network_that_is_described_is_the_one_of_the_scenario(policy_file: PolicyFile) -> None:
    """A neighbourhood made of a few numbers means to observer and policy what the whole scenario does."""
    whole = rack(hosts=6, periods=10)
    scales = scales_of(whole)
    spec = NeighbourhoodSpec(
        hosts=6,
        link_rate_bps=1e9,
        uplink_rate_bps=2e9,
        uplink_buffer_bytes=int(scales.uplink_buffer_bytes[0]),
        base_rtt_s=float(scales.base_rtt_s[0]),
        period_s=whole.period_s,
    )
    found = scales_of(spec.scenario())
    for name in ("link_rate_bps", "uplink_rate_bps", "uplink_capacity_bps", "uplink_buffer_bytes", "neighbours"):
        np.testing.assert_array_equal(getattr(found, name), getattr(scales, name))
    np.testing.assert_allclose(found.base_rtt_s, scales.base_rtt_s, rtol=1e-4)  # links have whole nanoseconds
    one, other = limiter_of(policy_file), limiter_of(policy_file)
    one.reset(whole, 1)
    other.reset(spec.scenario(), 1)
    for measurement in drawn(whole, 40, 3):
        np.testing.assert_allclose(parts(other.decide(measurement))[0], parts(one.decide(measurement))[0], rtol=1e-5)


def test_an_agent_whose_policy_fails_holds_the_last_limits_and_then_its_share(policy_file: PolicyFile) -> None:
    scenario = rack(hosts=3, periods=100)
    half = with_bounds(policy_file, RateBounds(min_rate_frac=0.01, max_rate_frac=0.5))
    agents = HostAgents(half, GuardSettings(bad_periods=3, hold_off_s=0.01))
    agents.reset(scenario, 1)
    busy = {"queued_bytes": 1e6, "next_bytes": 1e5, "queued_flows": np.full(3, 4), "throughput_bps": 9e8}
    last = [agents.decide(measured(scenario, epoch, **busy)) for epoch in range(5)][-1]
    assert np.isfinite(last).all()
    for epoch in range(5, 8):
        wrong = measured(scenario, epoch, **busy, goodput_bps=np.array([0.0, np.nan, 0.0]))
        np.testing.assert_array_equal(agents.decide(wrong)[1], last[1])
    assert not agents.said
    limits = agents.decide(measured(scenario, 8, **busy, goodput_bps=np.array([0.0, np.nan, 0.0])))
    scales = scales_of(scenario)
    assert limits[1] == min(scales.fair_share_bps[1], 0.5 * scales.link_rate_bps[1])
    assert np.isfinite(limits).all()
    (said,) = agents.fallbacks
    assert said.startswith("host h1: the policy is suspended")
    assert "goodput_bps" in said
    for epoch in range(9, 25):
        limits = agents.decide(measured(scenario, epoch, **busy))
    assert [agent.guard.active for agent in agents.agents] == [True] * 3


def test_what_agents_cannot_know_is_refused(policy_file: PolicyFile) -> None:
    for changes in ({"sharing_delay_periods": 2}, {"sharing_loss_frac": 0.1}, {"sharing_silent": ("h0",)}):
        with pytest.raises(ConfigError, match="Agents on hosts send each other real messages"):
            HostAgents(policy_file).reset(rack(**changes), 1)


def test_a_base_rtt_that_no_network_has_is_refused() -> None:
    spec = NeighbourhoodSpec(hosts=2, link_rate_bps=1e8, uplink_rate_bps=1e8, base_rtt_s=1e-5)
    with pytest.raises(ConfigError, match=r"must be at least 0\.0003"):
        spec.scenario()


def test_agents_are_chosen_by_name(policy_path: Path) -> None:
    for name, kind in ((f"hosts:{policy_path}", HostAgents), (str(policy_path), PolicyLimiter)):
        controller = load_controller(name)
        assert type(LimiterFactory(None)(controller, INCAST)) is kind
        assert LimiterFactory(None).resolved(controller).stack.order == "srpt"
        assert from_dict(Controller, controller.to_dict(), "test") == controller
    assert type(LimiterFactory(None)(Controller(name="x", limit=HostsLimit(pretrained="ncc")), INCAST)) is HostAgents
    with pytest.raises(ConfigError, match=r"an agent on each host, which decides greedily: set limit.greedy to true"):
        LimiterFactory(None)(Controller(name="x", limit=HostsLimit(pretrained="ncc", greedy=False)), INCAST)
