# SPDX-License-Identifier: BSD-3-Clause
"""Returns and advantages against hand arithmetic and against the definition, written as a loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.agents.a3c.rollout import Bool, Float
from ncc.agents.a3c.update import advantages


def column(*numbers: float) -> Float:
    """[T, 1 rack, 1 host]"""
    return np.array(numbers, np.float32)[:, None, None]


def ends(*flags: int) -> Bool:
    return np.array(flags, np.bool_)[:, None]


def test_gae_by_hand() -> None:
    # gamma 0.5, lambda 0.5: delta = (1 + 3 - 4, 2 + 3.5 - 6, 3 + 4 - 7) = (0, -0.5, 0)
    # A_2 = 0; A_1 = -0.5 + 0.25 * 0; A_0 = 0 + 0.25 * -0.5 = -0.125
    advantage, returns = advantages(
        column(1, 2, 3),
        column(4, 6, 7),
        column(6, 7, 8),
        terminated=ends(0, 0, 0),
        truncated=ends(0, 0, 0),
        gamma=0.5,
        gae_lambda=0.5,
    )
    assert advantage.ravel().tolist() == [-0.125, -0.5, 0]
    assert returns.ravel().tolist() == [3.875, 5.5, 7]


@given(seed=st.integers(0, 2**32), gamma=st.floats(0, 0.999), gae_lambda=st.floats(0, 1))
def test_every_rack_and_host_follows_the_definition(seed: int, gamma: float, gae_lambda: float) -> None:
    rng = np.random.default_rng(seed)
    steps, racks, hosts = 6, 3, 2
    rewards, values, next_values = rng.standard_normal((3, steps, racks, hosts)).astype(np.float32)
    terminated, truncated = rng.random((2, steps, racks)) < 0.25
    advantage, returns = advantages(
        rewards, values, next_values, terminated=terminated, truncated=truncated, gamma=gamma, gae_lambda=gae_lambda
    )
    for rack in range(racks):
        for host in range(hosts):
            for t in range(steps):
                expected, weight = 0.0, 1.0
                for k in range(t, steps):
                    follows = 0.0 if terminated[k, rack] else float(next_values[k, rack, host])
                    delta = float(rewards[k, rack, host]) + gamma * follows - float(values[k, rack, host])
                    expected += weight * delta
                    if terminated[k, rack] or truncated[k, rack]:
                        break
                    weight *= gamma * gae_lambda
                assert advantage[t, rack, host] == pytest.approx(expected, abs=1e-4)
    assert returns == pytest.approx(advantage + values)
