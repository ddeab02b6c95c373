# SPDX-License-Identifier: BSD-3-Clause
"""Deviations of ns3-gym's scripts from their spaces that its own agents accept: accepted with a warning, or refused."""

import socket
import warnings
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import zmq
from gymnasium import spaces

from ncc.core.errors import ConfigError, DatapathError
from ncc.envs.ns3gym import Ns3GymEnv
from ncc.envs.ns3gym.containers import pack, value_of
from ncc.envs.ns3gym.schema import messages
from tests.ns3gym.leaks import free_port, nothing_left
from tests.ns3gym.script import Script

CHANNELS = spaces.Box(0, 1, (4,), np.uint32)
BUSY = pack(CHANNELS, [0, 1, 0, 0])
CLEARED = pack(spaces.Box(0, 1, (0,), np.uint32), [])
SHORT_PART = pack(spaces.Tuple([spaces.Discrete(2)]), [1])
PAIR = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])


def _played(port: int, action: Any = 1) -> tuple[list[Any], list[str]]:
    """Observations of an episode, and what it was warned of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with closing(Ns3GymEnv(port=port)) as env:
            seen, over = [env.reset()[0]], False
            while not over:
                obs, _, _, over, _ = env.step(action)
                seen.append(obs)
    return seen, [str(one.message) for one in told]


@pytest.mark.parametrize(
    ("space", "whole", "last"),
    [(CHANNELS, BUSY, CLEARED), (CHANNELS, BUSY, None), (PAIR, pack(PAIR, [1, 0]), SHORT_PART)],
)
def test_a_last_state_without_its_observation_repeats_the_one_before(
    space: spaces.Space[Any], whole: Any, last: Any
) -> None:
    """As upstream's interference-pattern, whose callback clears it before NotifySimulationEnd."""
    port = free_port()
    with nothing_left(), Script(port, space, [whole, whole, last]):
        seen, told = _played(port)
    np.testing.assert_array_equal(seen[2], seen[1])
    assert seen[2] is not seen[1] or isinstance(space, spaces.Tuple)  # nobody shares an array
    assert told == ["the simulation's last state lacks its observation: the one before is repeated"]


def test_an_observation_that_is_missing_in_mid_episode_is_refused() -> None:
    port = free_port()
    refused = pytest.raises(DatapathError, match="must have 4 numbers, as its space says, got 0")
    with nothing_left(), refused, Script(port, CHANNELS, [BUSY, CLEARED, BUSY]):
        _played(port)


def test_a_discrete_beyond_its_values_is_let_through_with_one_warning() -> None:
    """As upstream's opengym-2, which states 5 values and draws from 0 to 10."""
    port = free_port()
    wide: spaces.Space[Any] = spaces.Discrete(11)
    with nothing_left(), Script(port, spaces.Discrete(5), [pack(wide, value) for value in (9, 3, 10)]):
        seen, told = _played(port)
    assert seen == [9, 3, 10]
    assert told == ["the observation is from 0 to 4 by its space, and others come as well"]


def test_a_tuple_where_a_dict_was_stated_is_taken_by_position() -> None:
    """As upstream's multi-agent example; a part that does not fit is refused."""
    port, box = free_port(), spaces.Box(0, 9, (2,), np.uint32)
    stated = spaces.Dict(box=box, discrete=spaces.Discrete(5))
    container = pack(spaces.Tuple([box, spaces.Discrete(5)]), ([4, 5], 3))
    with nothing_left(), Script(port, stated, [container] * 3):
        seen, told = _played(port)
    assert (seen[0]["box"].tolist(), seen[0]["discrete"]) == ([4, 5], 3)
    assert told == ["the observation is a Dict by its space, and came as a Tuple: its parts are taken by position"]
    other = pack(PAIR, [1, 1])
    with pytest.raises(DatapathError, match=r"observation\[0\] must be of type Box, as its space says, got Discrete"):
        value_of(other, stated, "observation", told.append)


@pytest.mark.parametrize(
    ("stated", "sent", "values", "culprit"),
    [
        (np.uint32, np.float32, [0.0, 0.25], "0.25 does not fit uint32"),
        (np.uint32, np.float32, [1.0, -1.5], "-1.5 does not fit uint32"),
        (np.uint32, np.float32, [np.nan, 1.0], "nan does not fit uint32"),
        (np.int32, np.uint32, [1, 3_000_000_000], "3000000000 does not fit int32"),
    ],
)
def test_numbers_that_the_stated_type_cannot_hold_are_named(
    stated: Any, sent: Any, values: list[Any], culprit: str
) -> None:
    space = spaces.Box(0, 1, (2,), stated)
    container = pack(spaces.Box(0, 1, (2,), sent), values)
    with pytest.raises(DatapathError, match=rf"observation is of \w+ by its space, and came as \w+ .*{culprit}"):
        value_of(container, space, "observation")
    whole = value_of(pack(spaces.Box(0, 1, (2,), sent), [3, 4]), space, "observation")
    assert (whole.tolist(), whole.dtype) == ([3, 4], stated)


def test_an_action_that_is_none_is_refused_and_the_episode_goes_on() -> None:
    port, act_space = free_port(), spaces.Box(0, 9, (2, 2), np.int32)
    with Script(port, CHANNELS, [BUSY, BUSY], act_space) as script, closing(Ns3GymEnv(port=port)) as env:
        env.reset()
        for action, why in (
            (None, ""),
            (np.zeros(3), "it has 3 numbers instead of 4"),
            ([3 * 10**9] * 4, "does not fit int32"),
        ):
            with pytest.raises(ConfigError, match=f"is not a value of .*{why}"):
                env.step(action)
        assert env.step(np.full((2, 2), 7, np.int64))[3]
    inner = messages().BoxDataContainer.FromString(script.actions[0].data.value)
    assert (list(inner.intData), list(inner.shape)) == ([7, 7, 7, 7], [2, 2])


def test_a_wait_that_never_ends_is_a_wait() -> None:
    port = free_port()
    with Script(port, CHANNELS, [BUSY, BUSY]), closing(Ns3GymEnv(port=port, wait_s=1e30, answer_s=np.inf)) as env:
        env.reset()
        assert env.step(1)[3]
    with pytest.raises(ConfigError, match="wait_s and answer_s must be above 0, got nan"):
        Ns3GymEnv(port=port, wait_s=float("nan"))


@pytest.mark.parametrize("speaks", [False, True])
def test_whoever_else_is_connected_hides_no_lost_simulation(speaks: bool) -> None:
    """A connection that says nothing, and a ZMQ socket that does not: no waiting until answer_s is up."""
    port = free_port()
    with Script(port, CHANNELS, [BUSY, BUSY], leaves=True), closing(Ns3GymEnv(port=port)) as env:
        env.reset()
        with zmq.Context() as context, context.socket(zmq.REQ) as idle, socket.socket() as silent:
            (idle.connect(f"tcp://127.0.0.1:{port}") if speaks else silent.connect(("127.0.0.1", port)))
            env.step(1)
            with pytest.raises(DatapathError, match="closed its connection after step 2"):
                env.step(1)
