# SPDX-License-Identifier: BSD-3-Clause
"""Records of a run equal what an environment would have shown, and do not change the run."""

from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.action import ActionSpec, RateTable
from ncc.envs.observation import ObservationSpec, SharedObserver
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.envs.racks import Racks
from ncc.envs.recording import Recorder, Recording
from ncc.envs.reward import Backlog, ProfitPenalty, Utility
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.controller import Controller, MaxMinLimit, NoLimit, ShareLimit, ShortestFirstLimit
from ncc.harness.datapath import HostStack
from ncc.harness.episodes import Episode
from ncc.harness.limiter import RateLimiter
from ncc.harness.run import Run, eval_flow_seed, recording_flow_seed, run_once
from ncc.policies import PolicyLimiter
from tests.envs.cases import FLOWS, listed, poisson, rack, spec

DCTCP = HostStack(transport="dctcp")


def record(
    scenario: Scenario,
    limit: Any,
    view: EnvView | None = None,
    *,
    datapath: Any = FLOWS,
    flow_seed: int = 1,
    limiter: RateLimiter | None = None,
) -> tuple[Run, Episode]:
    recorder = Recording(view or EnvView())()
    controller = Controller(name="c", stack=DCTCP, limit=limit)
    network = datapath()
    run = run_once(
        network, scenario, controller, limiter or limit.build(), 3, flow_seed=flow_seed, watch=recorder.watch
    )
    network.close()
    return run, recorder.episode(run)


VIEWS = [
    EnvView(),
    EnvView(observation=ObservationSpec(neighbours="ranked"), reward=Backlog(left_frac=1.0)),
    EnvView(observation=ObservationSpec(neighbours="pooled", ages=True), reward=ProfitPenalty()),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("limit", [ShareLimit(), MaxMinLimit()])
def test_it_is_what_the_environment_gives_for_the_same_flows_and_limits(view: EnvView, limit: Any) -> None:
    scenario = rack(poisson(0.8), periods=20, sharing_delay_periods=2)
    made = EnvSpec(scenario=scenario, view=view)
    run, episode = record(scenario, limit, view, flow_seed=made.episode_seed(1, 0, 0))
    env, limiter = Racks(made, FLOWS), limit.build()
    limiter.reset(scenario, 0)
    assert np.array_equal(env.begin_next(0, 1, np.random.default_rng()), episode.obs[0])
    for t in range(20):
        limits: FloatArray = limiter.decide(env.each()[0])
        table = RateTable(view.action, view.observation)
        table.reset(scenario)
        assert np.array_equal(episode.actions[t], table.nearest(limits, env.obs[0]))
        epoch = env.advance(limits[None])
        assert np.array_equal(epoch.obs[0], episode.obs[t + 1])
        assert np.array_equal(epoch.reward[0], episode.reward[t])
        assert epoch.truncated == (t == 19)
    assert episode.truncated
    assert len(episode.actions) == 20 <= len(run.epochs.time_s), "the drain is no part of it"
    assert episode.epoch.tolist() == list(range(21))
    env.close()


def test_actions_of_a_bare_transport_are_what_hosts_sent() -> None:
    # Three hosts with 1.25 MB each share 2 Gbit/s: two thirds of their links, to which level 7 of 10 is nearest (0.648
    # to 0.748); 15 ms at that rate, with nothing queued at the end of the fifteenth. The fourth host has nothing.
    size = 1_250_000
    flows = listed((0.0, "h0", size), (0.0, "h1", size), (0.0, "h2", size))
    run, episode = record(rack(flows, periods=100), NoLimit())
    sent = run.epochs.columns["throughput_bps"]
    assert sent[4] == pytest.approx([2e9 / 3, 2e9 / 3, 2e9 / 3, 0.0])
    assert episode.actions[:14].tolist() == [[7, 7, 7, 10]] * 14
    assert episode.actions[14].tolist() == [10, 10, 10, 10]
    assert episode.terminated
    assert len(episode.actions) == 15


def test_a_host_that_fills_its_link_is_held_back_by_nobody() -> None:
    _, episode = record(rack(listed((0.0, "h1", 1_250_000)), periods=100), NoLimit())
    assert (episode.actions == 10).all()


def test_a_list_of_flows_ends_with_the_last_delivery_and_arrivals_do_not() -> None:
    # 1.25 MB at 1 Gbit/s: 10 ms.
    done, episode = record(rack(listed((0.0, "h0", 1_250_000)), periods=100), NoLimit())
    assert (episode.terminated, len(episode.actions)) == (True, 10)
    late, episode = record(rack(listed((0.0, "h0", 1_250_000)), periods=5), NoLimit())
    assert (episode.terminated, episode.truncated, len(episode.actions)) == (False, True, 5)
    assert (len(done.epochs.time_s), len(late.epochs.time_s)) == (10, 10)
    run, episode = record(rack(poisson(0.01), periods=400), NoLimit())
    assert len(run.epochs.time_s) < 400, "the last delivery came before the arrivals' end"
    assert (episode.truncated, len(episode.actions)) == (True, len(run.epochs.time_s))


@pytest.mark.parametrize("limit", [NoLimit(), ShareLimit(), ShortestFirstLimit()])
def test_recording_changes_nothing_of_the_run(limit: Any) -> None:
    scenario = rack(poisson(0.8), periods=20)
    recorded, _ = record(scenario, limit, datapath=PacketsimDatapath)
    controller, network = Controller(name="c", stack=DCTCP, limit=limit), PacketsimDatapath()
    plain = run_once(network, scenario, controller, limit.build(), 3, flow_seed=1)
    network.close()
    for table in ("flows", "ports"):
        a, b = (vars(getattr(run.records, table)) for run in (plain, recorded))
        assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a), table
    assert all(np.array_equal(plain.epochs.columns[n], recorded.epochs.columns[n]) for n in plain.epochs.columns)


class _Noting:
    """A policy that keeps what it is shown, and answers in turn."""

    def __init__(self) -> None:
        self.seen: list[ObsArray] = []

    def act(self, obs: ObsArray, rng: np.random.Generator | None) -> ActionArray:
        self.seen.append(obs.copy())
        return (np.arange(len(obs)) + len(self.seen)) % 11


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_of_a_policy_it_is_what_the_policy_saw_and_did(loss: float) -> None:
    scenario = rack(poisson(0.8), periods=20, sharing_loss_frac=loss)
    policy: Any = _Noting()
    view = EnvView()
    limiter = PolicyLimiter(policy, SharedObserver(view.observation), RateTable(view.action, view.observation))
    _, episode = record(scenario, MaxMinLimit(), view, limiter=limiter)
    assert np.array_equal(episode.obs[:-1], np.stack(policy.seen[:20]))
    assert np.array_equal(episode.actions, (np.arange(4) + np.arange(1, 21)[:, None]) % 11)


def test_metadata_say_what_was_recorded_and_how() -> None:
    scenario, view = rack(), EnvView(reward=Utility(rho=0.25))
    run, episode = record(scenario, ShareLimit(), view, flow_seed=recording_flow_seed(3))
    info = episode.info
    assert (info.observation, info.action) == (view.observation.to_dict(), view.action.to_dict())
    assert info.reward == {"kind": "utility", "rho": 0.25, "team_frac": 0.5, "floor_frac": 1e-3}
    assert (info.scenario, info.scenario_digest) == ("small", scenario.digest())
    assert (info.controller, info.seed, info.datapath, info.problems) == ("c", 3, "mm1", run.problems)
    assert (info.obs_dim, info.n_actions, info.hosts) == (17, 11, ("h0", "h1", "h2", "h3"))
    assert int(info.flow_seed) == recording_flow_seed(3)


def test_recorded_flows_are_neither_held_out_nor_those_of_training() -> None:
    seeds = range(100)
    recorded = {recording_flow_seed(seed) for seed in seeds}
    held_out = {eval_flow_seed(seed) for seed in seeds}
    trained = {
        spec().episode_seed(seed, rack, episode) for seed in range(5) for rack in range(5) for episode in range(20)
    }
    assert len(recorded) == 100
    assert not recorded & (held_out | trained)
    assert not held_out & trained
    assert derive_seed(1, "record", "flows") == recording_flow_seed(1)


def test_what_cannot_be_recorded_is_refused() -> None:
    with pytest.raises(ConfigError, match="'levels' or 'shares'"):
        Recording(EnvView(action=ActionSpec(kind="log"))).check(rack())
    Recording(EnvView()).check(rack())
    run, _ = record(rack(), ShareLimit())
    with pytest.raises(ConfigError, match="no epoch to record"):
        Recorder(EnvView()).episode(run)
