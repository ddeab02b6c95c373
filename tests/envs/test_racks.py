# SPDX-License-Identifier: BSD-3-Clause
"""Several racks in one process: each is what it would be alone, however many there are."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.flows import FloatArray
from ncc.core.measurement import COLUMNS, Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine
from ncc.core.workload import Permutation
from ncc.envs.rack import RackBatch
from ncc.envs.reward import AnyReward, Backlog, ProfitPenalty, Utility
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.datapath import HostStack
from tests.envs.cases import FLOWS, listed, measured, rack, spec
from tests.support.fluid import FluidDatapath
from tests.support.mm1 import Mm1Datapath

PODS = Scenario(
    name="pods",
    topology=LeafSpine(leaves=3, spines=1, hosts_per_leaf=5),
    workload=(("p", Permutation(hosts="hosts", size_bytes=3_000_000)),),
    duration_s=6e-3,
    sharing_delay_periods=2,
)
LISTED = rack(listed((0.0, "h0", 250_000), (2e-3, "h1", 400_000), (3.5e-3, "h3", 90_000)), periods=20)


def assert_equal_alone(
    what: EnvSpec, datapath: Any, n_racks: int, *, epochs: int = 40, first: int = 3, by: Any = None
) -> int:
    """Compare racks together, on `by` if given, with racks of their own, bit for bit.

    Returns how often racks ended in different epochs.
    """
    together = RackBatch(what, by or datapath, 9, first, n_racks)
    alone = [RackBatch(what, datapath, 9, first + r) for r in range(n_racks)]
    np.testing.assert_array_equal(together.reset(2), np.concatenate([one.reset(2) for one in alone]))
    rng, apart = np.random.default_rng(5), 0
    for _ in range(epochs):
        actions = rng.integers(0, together.n_actions, (n_racks, together.n_agents))
        mine = together.step(actions)
        theirs = [one.step(actions[r : r + 1]) for r, one in enumerate(alone)]
        for name in ("obs", "reward", "terminated", "truncated", "final_obs"):
            a, b = getattr(mine, name), np.concatenate([getattr(t, name) for t in theirs])
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=name)
        ended = mine.terminated | mine.truncated
        apart += bool(ended.any() and not ended.all())
        assert together.episode == min(one.episode for one in alone)
    returns = together.take_returns()
    assert returns == tuple(value for one in alone for value in one.take_returns())
    assert together.take_returns() == ()
    for env in (together, *alone):
        env.close()
    return apart


@pytest.mark.parametrize("n_racks", [1, 2, 5])
@pytest.mark.parametrize("scenario", [rack(periods=7), PODS], ids=["rack", "pods"])
def test_each_rack_is_what_it_would_be_alone(scenario: Scenario, n_racks: int) -> None:
    assert_equal_alone(spec(scenario), FLOWS, n_racks)


@pytest.mark.parametrize("reward", [Utility(team_frac=0.3), ProfitPenalty(), Backlog(team_frac=0.5)])
@pytest.mark.parametrize("hosts", [4, 16, 19])
def test_whatever_hosts_are_paid_for(reward: AnyReward, hosts: int) -> None:
    assert_equal_alone(spec(rack(periods=9, hosts=hosts), view=EnvView(reward=reward)), FLOWS, 3, epochs=20)


@pytest.mark.parametrize("delay", [1, 4])
def test_racks_that_end_at_different_times(delay: int) -> None:
    """The time until the list is delivered depends on the actions, so each rack goes its own way."""
    assert assert_equal_alone(spec(LISTED.replace(sharing_delay_periods=delay)), FLOWS, 4, epochs=60) > 5


def test_a_network_that_fails_is_named_and_all_must_start_again() -> None:
    env, top = RackBatch(spec(stack=HostStack(transport="broken")), FluidDatapath, 1, 4, 3), np.full((3, 4), 10)
    env.reset()
    for _ in range(3):
        env.step(top)
    with pytest.raises(DatapathError, match=r"^rack 4: the broken transport broke"):
        env.step(top)
    with pytest.raises(DatapathError, match="reset the environment first"):
        env.step(top)
    env.reset()
    env.step(top)


def test_bad_actions_name_rack_and_host_and_run_no_epoch() -> None:
    env, twin, top = RackBatch(spec(), FLOWS, 1, 6, 2), RackBatch(spec(), FLOWS, 1, 6, 2), np.full((2, 4), 10)
    env.reset()
    twin.reset()
    bad = top.copy()
    bad[1, 2] = 11
    for actions, message in (
        (bad, r"rack 7: action of host h2 is 11; allowed: whole numbers 0 to 10"),
        (top.astype(float), r"actions must be integers"),
        (top[:1], r"shape \(2, 4\), .*got \(1, 4\)"),
        (top[:, :3], r"shape \(2, 4\), .*got \(2, 3\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            env.step(actions)
    np.testing.assert_array_equal(env.step(top).obs, twin.step(top).obs)


class Wild(Mm1Datapath):
    """Measures what is no number in its third epoch."""

    def step(self, rate_limits_bps: FloatArray) -> Measurement:
        m = super().step(rate_limits_bps)
        if m.epoch == 3:
            m.rtt_s[1] = np.nan
        return m


def test_a_measurement_that_is_not_finite_is_blamed_on_its_rack() -> None:
    making, top = iter([Mm1Datapath(), Wild(), Mm1Datapath()]), np.full((3, 4), 10)
    env = RackBatch(spec(), making.__next__, 1, 4, 3)
    env.reset()
    env.step(top)
    env.step(top)
    with pytest.raises(DatapathError, match=r"^rack 5: epoch 3: .*not finite \(rtt_s\)"):
        env.step(top)


def test_racks_and_threads_are_at_least_one() -> None:
    for settings in ({"n_racks": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="at least 1"):
            partial(RackBatch, spec(), FLOWS, 1, **settings)()


def test_measurements_stack_and_come_apart_again() -> None:
    ones = [measured(rack(), k, goodput_bps=k, queued_flows=k) for k in range(3)]
    for some in (ones, ones[:2]):
        stacked = Measurements.of(some)
        assert stacked.goodput_bps.shape == (len(some), 4)
        for row, one in enumerate(some):
            again = stacked[row]
            assert (again.time_s, again.epoch, again.flows_started) == (one.time_s, one.epoch, one.flows_started)
            for name in COLUMNS:
                np.testing.assert_array_equal(getattr(again, name), getattr(one, name))
