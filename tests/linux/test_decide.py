# SPDX-License-Identifier: BSD-3-Clause
"""A policy in one call decides as it does in numpy: the same numbers, the same actions, the same errors."""

from itertools import pairwise

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy
from ncc.compose import LimiterFactory, load_controller
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
from ncc.harness.limiter import PolicyLimiter, Unlimited
from ncc.harness.run import Hastens, run_once
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


def limiter_of(name: str, scenario: Scenario) -> PolicyLimiter:
    made = LimiterFactory(None)(load_controller(name), scenario)
    assert type(made) is PolicyLimiter
    return made


def random_limiter(spec: ObservationSpec, actions: ActionSpec, scenario: Scenario) -> PolicyLimiter:
    """A policy that nobody trained."""
    observer, rng = SharedObserver(spec), np.random.default_rng(3)
    observer.reset(scenario)
    sizes = (observer.obs_dim, 16, actions.n_actions)
    layers = [
        (rng.normal(size=(b, a)).astype(np.float32), rng.normal(size=b).astype(np.float32)) for a, b in pairwise(sizes)
    ]
    return PolicyLimiter(MlpPolicy(layers), observer, RateTable(actions, spec))


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
                upper_throughput_bps=10 ** rng.uniform(5, 9),
                upper_queue_bytes=10 ** rng.uniform(0, 6),
            )
        )
    return found


def check_equal(reference: PolicyLimiter, scenario: Scenario, measurements: list[Measurement]) -> int:
    """How many different limits were decided, all alike by both."""
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
        np.testing.assert_allclose(decider.obs, obs, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(decider.logits, logits, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(decider.logits.argmax(axis=-1), actions)
        np.testing.assert_allclose(limits[-1], reference.actions.rates_bps(actions, obs), rtol=1e-6)
    return len(np.unique(np.concatenate(limits)))


@pytest.mark.parametrize("name", ["ncc", "ncc_levels"])
def test_packaged_policies_decide_alike_on_what_was_recorded(name: str) -> None:
    reference, seen = limiter_of(name, INCAST), []
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


@pytest.mark.parametrize("neighbours", ["pooled", "ranked"])
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
def test_any_policy_decides_alike_on_anything(neighbours: str, kind: str, scenario: Scenario) -> None:
    spec = ObservationSpec(neighbours=neighbours, ceiling=1.5)  # type: ignore[arg-type]
    reference = random_limiter(spec, ActionSpec(kind=kind), scenario)  # type: ignore[arg-type]
    assert check_equal(reference, scenario, drawn(scenario, 200, 11)) > 3


def test_what_has_no_equal_in_one_call_decides_itself() -> None:
    reference = limiter_of("ncc", INCAST)
    assert hastened(unlimited := Unlimited()) is unlimited
    drawing = PolicyLimiter(reference.policy, reference.observer, reference.actions, greedy=False)
    assert hastened(drawing) is drawing
    lossy = INCAST.replace(sharing_loss_frac=0.5)
    ages = random_limiter(ObservationSpec(neighbours="pooled", ages=True), ActionSpec(), INCAST)
    for limiter, scenario in ((limiter_of("ncc", lossy), lossy), (ages, INCAST)):
        fast = hastened(limiter)
        fast.reset(scenario, 4)
        assert isinstance(fast, HastenedPolicy)
        assert fast.decider is None
        got = [fast.decide(each) for each in drawn(scenario, 20, 2)]
        limiter.reset(scenario, 4)
        np.testing.assert_array_equal(got, [limiter.decide(each) for each in drawn(scenario, 20, 2)])


def test_another_run_begins_anew() -> None:
    fast = hastened(limiter_of("ncc", INCAST))
    runs = []
    for _ in range(2):
        fast.reset(INCAST, 1)
        runs.append([fast.decide(each) for each in drawn(INCAST, 10, 6)])
    np.testing.assert_array_equal(runs[0], runs[1])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_number_that_is_not_finite_is_named() -> None:
    fast = hastened(limiter_of("ncc", INCAST))
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


def test_the_linux_datapath_hastens() -> None:
    assert isinstance(LinuxDatapath(), Hastens)
    assert isinstance(LinuxDatapath().hastened(limiter_of("ncc", INCAST)), HastenedPolicy)
    assert not isinstance(PacketsimDatapath(), Hastens)
