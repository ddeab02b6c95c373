# SPDX-License-Identifier: BSD-3-Clause
"""A policy in one call decides as it does in numpy: the same numbers, the same actions, the same errors."""

from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy, save_policy
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, ManyToOne
from ncc.core.workload import Incast, Permutation
from ncc.envs.action import ActionSpec, RateTable
from ncc.envs.linux.datapath import LinuxDatapath
from ncc.envs.linux.decide import HastenedPolicy, hastened
from ncc.envs.observation import ObservationSpec, SharedObserver
from ncc.envs.packetsim import PacketsimDatapath
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.controller import PolicyLimit
from ncc.harness.limiter import PolicyLimiter, Unlimited
from ncc.harness.run import Hastens, run_once
from ncc.policies import HeldLimiter, RateBounds
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import measured, rack

INCAST = Scenario(
    name="incast",
    topology=ManyToOne(senders=5, rate_bps=2e8, buffer_bytes=300_000, mark_threshold_bytes=30_000),
    workload=(
        (
            "queries",
            Incast(events_per_s=60, fan_in=12, bytes_per_server=24_000, sources="senders", destinations="receiver"),
        ),
    ),
    duration_s=0.3,
    drain_s=1.0,
)


def random_limiter(spec: ObservationSpec, actions: ActionSpec, scenario: Scenario) -> PolicyLimiter:
    """A policy that nobody trained."""
    observer, rng = SharedObserver(spec), np.random.default_rng(3)
    observer.reset(scenario)
    sizes = (observer.obs_dim, 16, actions.n_actions)
    layers = [
        (rng.normal(size=(b, a)).astype(np.float32), rng.normal(size=b).astype(np.float32)) for a, b in pairwise(sizes)
    ]
    return PolicyLimiter(MlpPolicy(layers), observer, RateTable(actions, spec))


def sharing(scenario: Scenario) -> PolicyLimiter:
    """One that chooses among shares of what is fair."""
    return random_limiter(ObservationSpec(neighbours="ranked", ceiling=1), ActionSpec(kind="shares"), scenario)


def drawn(scenario: Scenario, n: int, seed: int) -> list[Measurement]:
    """Measurements that no network would make, at all scales."""
    rng, hosts = np.random.default_rng(seed), scenario.n_agents
    found = []
    for epoch in range(n):
        flows = rng.integers(0, 4, hosts) * rng.integers(0, 2, hosts)
        queued = np.where(flows > 0, 10 ** rng.uniform(1, 7, hosts), 0.0)
        found.append(
            measured(
                scenario,
                epoch,
                rate_limit_bps=np.where(rng.random(hosts) < 0.3, np.inf, 10 ** rng.uniform(5, 10, hosts)),
                throughput_bps=10 ** rng.uniform(4, 9, hosts),
                goodput_bps=10 ** rng.uniform(4, 9, hosts),
                rtt_s=10 ** rng.uniform(-6, 0, hosts),
                wait_s=np.where(flows > 0, 10 ** rng.uniform(-5, 1, hosts), 0.0),
                queued_flows=flows,
                queued_bytes=queued,
                next_bytes=queued / np.maximum(flows, 1),
                uplink_throughput_bps=10 ** rng.uniform(5, 9),
                uplink_queue_bytes=10 ** rng.uniform(0, 6),
            )
        )
    return found


def check_equal(reference: PolicyLimiter, scenario: Scenario, measurements: list[Measurement]) -> int:
    """The number of different limits that were decided, all alike by both."""
    fast = hastened(PolicyLimiter(reference.policy, reference.observer, reference.actions))
    assert isinstance(fast, HastenedPolicy)
    fast.reset(scenario, 1)
    decider = fast.decider
    assert decider is not None
    expected = []
    reference.reset(scenario, 1)
    for measurement in measurements:
        obs = reference.observer.observe(measurement)
        expected.append((obs, reference.policy.logits(obs), reference.policy.act(obs, None)))  # type: ignore[attr-defined]
    limits = []
    for measurement, (obs, logits, actions) in zip(measurements, expected, strict=True):
        limits.append(fast.decide(measurement))
        np.testing.assert_array_equal(decider.obs, obs)
        np.testing.assert_allclose(decider.logits, logits, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(decider.logits.argmax(axis=-1), actions)
        np.testing.assert_allclose(limits[-1], reference.actions.rates_bps(actions, obs), rtol=1e-6)
    return len(np.unique(np.concatenate(limits)))


@pytest.mark.parametrize("kind", ["levels", "shares"])
def test_policies_decide_alike_on_what_was_recorded(kind: Literal["levels", "shares"]) -> None:
    spec = ObservationSpec(neighbours="ranked", ceiling=1)
    reference, seen = random_limiter(spec, ActionSpec(kind=kind), INCAST), list[Measurement]()
    run_once(
        PacketsimDatapath(),
        INCAST,
        load_controller("dctcp"),
        reference,
        1,
        flow_seed=5,
        watch=lambda measurement, limits: seen.append(measurement),
    )
    assert check_equal(reference, INCAST, seen) > 3


@pytest.mark.parametrize(("neighbours", "ages"), [("pooled", False), ("pooled", True), ("ranked", False)])
@pytest.mark.parametrize("kind", ["levels", "shares"])
@pytest.mark.parametrize(
    "scenario",
    [
        INCAST,
        INCAST.replace(topology=ManyToOne(senders=1)),
        rack(hosts=4, sharing_delay_periods=2),
        INCAST.replace(
            topology=LeafSpine(leaves=3, spines=2, hosts_per_leaf=3),
            workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
            sharing_delay_periods=3,
        ),
    ],
    ids=["incast", "alone", "rack", "leaf_spine"],
)
def test_any_policy_decides_alike_on_anything(neighbours: str, ages: bool, kind: str, scenario: Scenario) -> None:
    spec = ObservationSpec(neighbours=neighbours, ages=ages, ceiling=1.5)  # type: ignore[arg-type]
    reference = random_limiter(spec, ActionSpec(kind=kind), scenario)  # type: ignore[arg-type]
    assert check_equal(reference, scenario, drawn(scenario, 200, 11)) > 3


def test_what_has_no_equal_in_one_call_decides_itself() -> None:
    reference = sharing(INCAST)
    assert hastened(unlimited := Unlimited()) is unlimited
    drawing = PolicyLimiter(reference.policy, reference.observer, reference.actions, greedy=False)
    assert hastened(drawing) is drawing
    lossy = INCAST.replace(sharing_loss_frac=0.5)
    limiter = sharing(lossy)
    fast = hastened(limiter)
    fast.reset(lossy, 4)
    assert isinstance(fast, HastenedPolicy)
    assert fast.decider is None
    assert fast.facts == {"decides": "numpy"}
    got = [fast.decide(each) for each in drawn(lossy, 20, 2)]
    limiter.reset(lossy, 4)
    np.testing.assert_array_equal(got, [limiter.decide(each) for each in drawn(lossy, 20, 2)])


def test_types_must_be_exact() -> None:
    class Guarded(MlpPolicy):
        def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
            return np.zeros(len(obs), np.int64)

    class Rectified:
        def __init__(self, of: MlpPolicy) -> None:
            self.layers, self.obs_dim, self.n_actions = of.layers, of.obs_dim, of.n_actions

        def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
            return np.ones(len(obs), np.int64)

    class Blind(SharedObserver):
        pass

    class Halved(RateTable):
        pass

    reference, spec = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST), ActionSpec()
    policy, observer, actions = reference.policy, reference.observer, reference.actions
    assert type(policy) is MlpPolicy
    seen = ObservationSpec(neighbours="pooled")
    for limiter in (
        PolicyLimiter(Guarded(policy.layers), observer, actions),
        PolicyLimiter(Rectified(policy), observer, actions),
        PolicyLimiter(policy, Blind(seen), actions),
        PolicyLimiter(policy, observer, Halved(spec, seen)),
    ):
        assert hastened(limiter) is limiter

    class Guard(HeldLimiter):
        pass

    bounds = RateBounds(min_rate_frac=0.05, max_rate_frac=0.5)
    guard = Guard(reference, bounds)
    assert hastened(guard) is guard


def test_what_is_held_to_bounds_is_decided_in_one_call_and_facts_say_so() -> None:
    bounds = RateBounds(min_rate_frac=0.05, max_rate_frac=0.5, rise_ratio=2)
    plain, fast = (HeldLimiter(sharing(INCAST), bounds) for _ in range(2))
    assert plain.facts == {}
    quick = hastened(fast)
    assert isinstance(quick, HeldLimiter)
    for limiter in (plain, quick):
        limiter.reset(INCAST, 1)
    assert quick.facts == {"decides": "compiled"}
    for measurement in drawn(INCAST, 50, 4):
        np.testing.assert_allclose(quick.decide(measurement), plain.decide(measurement), rtol=1e-6)
    run = run_once(PacketsimDatapath(), INCAST, load_controller("dctcp"), quick, 1, flow_seed=5)
    assert run.datapath_facts == {"decides": "compiled"}


def test_a_policy_that_does_not_fit_is_refused_by_name() -> None:
    spec = ObservationSpec(neighbours="pooled")
    fits = random_limiter(spec, ActionSpec(), INCAST)
    fast = hastened(PolicyLimiter(fits.policy, SharedObserver(ObservationSpec(neighbours="ranked")), fits.actions))
    slow = PolicyLimiter(fits.policy, SharedObserver(ObservationSpec(neighbours="ranked")), fits.actions)
    slow.reset(INCAST, 1)
    with pytest.raises(ConfigError) as expected:
        slow.decide(drawn(INCAST, 1, 1)[0])
    with pytest.raises(ConfigError) as got:
        fast.reset(INCAST, 1)
    assert str(got.value) == str(expected.value)
    table = RateTable(ActionSpec(levels=5), spec)
    with pytest.raises(ConfigError, match="chooses among 11 actions and the table has 6; take the actions"):
        hastened(PolicyLimiter(fits.policy, fits.observer, table)).reset(INCAST, 1)


def test_a_policy_file_whose_table_of_actions_is_another_is_refused(tmp_path: Path) -> None:
    spec = ObservationSpec(neighbours="pooled")
    policy, controller = random_limiter(spec, ActionSpec(), INCAST).policy, load_controller("trained")
    assert isinstance(policy, MlpPolicy)
    meta = {"observation": spec.to_dict(), "action": ActionSpec(levels=5).to_dict()}
    save_policy(tmp_path / "other.npz", policy.layers, meta)
    controller = controller.replace(limit=PolicyLimit(path=str(tmp_path / "other.npz")))
    with pytest.raises(ConfigError, match="chooses among 11 actions and states a table of 6"):
        LimiterFactory(None)(controller, INCAST)


def test_another_run_begins_anew() -> None:
    fast = hastened(sharing(INCAST))
    runs = []
    for _ in range(2):
        fast.reset(INCAST, 1)
        runs.append([fast.decide(each) for each in drawn(INCAST, 10, 6)])
    np.testing.assert_array_equal(runs[0], runs[1])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_number_that_is_not_finite_is_named() -> None:
    fast = hastened(sharing(INCAST))
    fast.reset(INCAST, 1)
    with pytest.raises(DatapathError, match=r"epoch 0: the datapath measured a number that is not finite \(wait_s\)"):
        fast.decide(measured(INCAST, wait_s=[0, np.nan, 0, 0, 0]))
    reference = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST)
    layers = reference.policy.layers  # type: ignore[attr-defined]
    layers[0][0][:] = 3e38
    layers[1][0][:] = 3e38
    fast = hastened(reference)
    fast.reset(INCAST, 1)
    with pytest.raises(ConfigError, match="finite"):
        fast.decide(drawn(INCAST, 1, 1)[0])


def test_a_hidden_number_that_is_not_one_makes_no_decision() -> None:
    reference, seen = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST), drawn(INCAST, 1, 1)[0]
    reference.policy.layers[0][1][0] = np.nan  # type: ignore[attr-defined]
    fast = hastened(reference)
    assert isinstance(fast, HastenedPolicy)
    for limiter in (reference, fast):
        limiter.reset(INCAST, 1)
        with pytest.raises(ConfigError, match="finite"):
            limiter.decide(seen)
    assert fast.decider is not None
    assert np.isnan(fast.decider.logits).all()


def test_the_linux_datapath_hastens() -> None:
    assert isinstance(LinuxDatapath(), Hastens)
    assert isinstance(LinuxDatapath().hastened(sharing(INCAST)), HastenedPolicy)
    assert not isinstance(PacketsimDatapath(), Hastens)
