# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds that a central system sets: actions and observations by worked arithmetic, and the environment."""

import math
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ncc  # noqa: F401 - registers
from ncc.core.errors import ConfigError
from ncc.core.measurement import Delivered, Measurement, idle
from ncc.envs.scenarios import make_scenario
from ncc.envs.thresholds import MEMORY_S, OBS_DIM, DeliveredView, thresholds

SMALL = make_scenario(
    {
        "name": "priorities",
        "topology": {"senders": 2, "receivers": 2},
        "workload": {"flows": {"distribution": "hadoop", "load_frac": 1.2}},
    }
)
ALL_LOW, ALL_HIGH = -np.ones(7), np.ones(7)


def delivered(*flows: tuple[int, float]) -> Measurement:
    """Flows as (bytes, seconds) that a period delivered."""
    size, took = (np.array(column) for column in zip(*flows, strict=True)) if flows else (np.zeros(0), np.zeros(0))
    return replace(idle(2, 1), delivered=Delivered(size.astype(np.int64), took))


def test_actions_are_logarithmic_steps() -> None:
    assert thresholds(ALL_LOW) == (1,) * 7
    assert thresholds(ALL_HIGH) == tuple(10**k for k in range(3, 10))
    assert thresholds(np.zeros(7)) == (32, 100, 316, 1000, 3162, 10_000, 31_623)
    assert thresholds([1, -1, -1, -1, -1, -1, 1]) == (1000,) * 6 + (10_000,)
    assert thresholds([5.0, *ALL_LOW[1:]]) == (1000,) * 7, "clipped"


@pytest.mark.parametrize("action", [np.zeros(6), np.zeros((1, 7)), [math.nan] * 7, 0.5])
def test_other_actions_are_refused(action: Any) -> None:
    with pytest.raises(ConfigError, match=r"an action must be 7 numbers in \[-1, 1\], one per threshold"):
        thresholds(action)


def test_an_observation_has_shares_slowdowns_and_load() -> None:
    """Alone, 125,000 bytes take 1 ms at 1 Gbit/s and an RTT of 104.7 us: twice and four times that are observed."""
    view = DeliveredView(SMALL)
    alone_s = 1e-3 + 2 * (2 * 20e-6 + 8 * (1500 + 40 + 2 * 38) / 1e9)
    assert np.exp(view.log_slowdown(Delivered(np.array([125_000]), np.array([2 * alone_s])))) == pytest.approx(2)
    seen = view.observe(delivered((125_000, 2 * alone_s), (125_000, 4 * alone_s), (100, 1.0)))
    assert seen.shape == (OBS_DIM,)
    assert seen[:6].tolist() == pytest.approx([1 / 3, 0, 0, 2 / 3, 0, 0])
    assert seen[6 + 3] == pytest.approx((math.log(2) + math.log(4)) / 2 / 3)
    assert seen[-1] == pytest.approx(8 * 250_100 / (0.02 * 2e9))


def test_flows_are_forgotten_with_time() -> None:
    view = DeliveredView(SMALL)
    view.observe(delivered((100, 1e-3)))
    for _ in range(round(MEMORY_S / SMALL.period_s)):
        seen = view.observe(delivered())
    seen = view.observe(delivered((10**6, 1e-2)))
    old = math.exp(-1 - SMALL.period_s / MEMORY_S)
    assert seen[0] == pytest.approx(old / (1 + old), rel=1e-5)
    assert view.restart().tolist() == [0] * OBS_DIM


def test_an_observation_stays_in_its_box_whatever_happens() -> None:
    seen = DeliveredView(SMALL).observe(delivered((1, 1e9), (1, 1e-9), (10**12, 1e-9)))
    assert seen.min() >= -1
    assert seen.max() <= 3


def test_ports_without_classes_are_refused() -> None:
    plain = SMALL.replace(topology=SMALL.topology.replace(classes=1))
    with pytest.raises(ConfigError, match=r"have one class: set scenario\.topology\.classes to 8"):
        DeliveredView(plain)


def test_the_environment_is_one_of_gymnasium() -> None:
    env = gymnasium.make("ncc/Thresholds-v0", scenario=SMALL, duration_s=0.1)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()  # type: ignore[no-untyped-call]


def played(action: Any, **settings: Any) -> tuple[list[float], list[Any]]:
    """Rewards and observations of an episode with the same action."""
    env: Any = gymnasium.make("ncc/Thresholds-v0", scenario=SMALL, duration_s=0.2, **settings)
    obs, info = env.reset(seed=1)
    rewards, seen, over = [], [obs], False
    while not over:
        obs, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        seen.append(obs)
        over = terminated or truncated
    assert info["flows_finished"] > 10
    env.close()
    return rewards, seen


@pytest.mark.parametrize("datapath", ["packetsim", "ns3"])
def test_episodes_repeat_and_thresholds_matter(datapath: str) -> None:
    one, two = played(np.zeros(7), datapath=datapath), played(np.zeros(7), datapath=datapath)
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])
    assert len(one[0]) == 10
    assert played(ALL_HIGH, datapath=datapath)[0] != one[0]


def test_rewards_are_of_the_flows_that_a_period_delivered() -> None:
    """By slowdown, the reward is the mean over the flows; by throughput, a ratio of means."""
    env: Any = gymnasium.make("ncc/Thresholds-v0", scenario=SMALL).unwrapped
    env.reset(seed=1)
    flows = Delivered(np.array([1000, 3000]), np.array([1.0, 2.0]))
    assert env._earned(flows) == pytest.approx(-float(DeliveredView(SMALL).log_slowdown(flows).mean()))
    assert env._earned(Delivered(np.zeros(0, np.int64), np.zeros(0))) == 0
    env.close()
    env = gymnasium.make("ncc/Thresholds-v0", scenario=SMALL, goal="throughput").unwrapped
    env.reset(seed=1)
    later = Delivered(np.array([5000]), np.array([1.0]))
    assert [env._earned(flows), env._earned(later)] == pytest.approx([0, 5000 / 1250])
    env.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"observation": "ranked"}, "about classes, not rates of hosts: leave observation out"),
        ({"reward": "utility"}, "leave reward out"),
        ({"goal": "speed"}, "goal of ncc/Thresholds-v0 'speed'"),
        ({"stack": "dctcp"}, "sets the thresholds of pias: set stack.tags to it"),
        ({"scenario": "rack"}, "ports of scenario 'rack' have one class"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        gymnasium.make("ncc/Thresholds-v0", **settings)
