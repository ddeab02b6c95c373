# SPDX-License-Identifier: BSD-3-Clause
"""A policy with its observation and action: its decisions, and invalid ones."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ncc.agents.policy import MlpPolicy, save_policy
from ncc.core.errors import ConfigError, DatapathError
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.topologies import ManyToOne
from ncc.core.workload import Incast
from ncc.envs.action import ActionSpec, RateTable
from ncc.envs.observation import ObservationSpec, SharedObserver
from ncc.harness.controller import PolicyLimit
from ncc.policies import PolicyLimiter
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import measured

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
    """A policy that chooses among fractions of the fair share."""
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


def test_a_policy_that_does_not_fit_is_refused_by_name() -> None:
    fits = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST)
    limiter = PolicyLimiter(fits.policy, SharedObserver(ObservationSpec(neighbours="ranked")), fits.actions)
    limiter.reset(INCAST, 1)
    with pytest.raises(ConfigError, match=r"reads observations of shape \[\.\.\., 16\], got \[5, 25\]"):
        limiter.decide(drawn(INCAST, 1, 1)[0])


def test_a_policy_file_whose_table_of_actions_is_another_is_refused(tmp_path: Path) -> None:
    spec = ObservationSpec(neighbours="pooled")
    policy, controller = random_limiter(spec, ActionSpec(), INCAST).policy, load_controller("trained")
    assert isinstance(policy, MlpPolicy)
    meta = {"observation": spec.to_dict(), "action": ActionSpec(levels=5).to_dict()}
    save_policy(tmp_path / "other.ncc", policy.layers, meta)
    controller = controller.replace(limit=PolicyLimit(path=str(tmp_path / "other.ncc")))
    with pytest.raises(ConfigError, match="chooses among 11 actions and states a table of 6"):
        LimiterFactory(None)(controller, INCAST)


def test_another_run_begins_anew() -> None:
    fast = sharing(INCAST)
    runs = []
    for _ in range(2):
        fast.reset(INCAST, 1)
        runs.append([fast.decide(each) for each in drawn(INCAST, 10, 6)])
    np.testing.assert_array_equal(runs[0], runs[1])


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_number_that_is_not_finite_is_named() -> None:
    fast = sharing(INCAST)
    fast.reset(INCAST, 1)
    with pytest.raises(DatapathError, match=r"epoch 0: the datapath measured a number that is not finite \(wait_s\)"):
        fast.decide(measured(INCAST, wait_s=[0, np.nan, 0, 0, 0]))
    reference = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST)
    layers = reference.policy.layers
    layers[0][0][:] = 3e38
    layers[1][0][:] = 3e38
    fast = reference
    fast.reset(INCAST, 1)
    with pytest.raises(ConfigError, match="finite"):
        fast.decide(drawn(INCAST, 1, 1)[0])


def test_a_hidden_number_that_is_not_one_makes_no_decision() -> None:
    limiter = random_limiter(ObservationSpec(neighbours="pooled"), ActionSpec(), INCAST)
    limiter.policy.layers[0][1][0] = np.nan
    limiter.reset(INCAST, 1)
    with pytest.raises(ConfigError, match="finite"):
        limiter.decide(drawn(INCAST, 1, 1)[0])
