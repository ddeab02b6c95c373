# SPDX-License-Identifier: BSD-3-Clause
"""PPO of `agent=groups` in RLlib's learner does what our own does. Nothing here starts Ray."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")
torch = pytest.importorskip("torch")

from ncc.agents.a3c.adam import TrainState  # noqa: E402 - behind the skip
from ncc.agents.groups.config import GroupsConfig  # noqa: E402
from ncc.agents.groups.network import Shape  # noqa: E402
from ncc.agents.groups.play import Samples  # noqa: E402
from ncc.agents.groups.update import improve  # noqa: E402
from ncc.agents.rllib.groups import RllibUpdates  # noqa: E402
from tests.agents.fitting import fit  # noqa: E402
from tests.agents.test_groups import CONFIG, AimingEnv, missed, weights_of  # noqa: E402
from tests.agents.toy_envs import cut  # noqa: E402

RLLIB = CONFIG.replace(updates="rllib")
pytestmark = pytest.mark.rllib


def drawn(shape: Shape, n: int, noise: float, weights: np.ndarray) -> tuple[Samples, np.ndarray]:
    """Samples of a policy with these weights, and their advantages."""
    rng = np.random.default_rng(2)
    obs, error = rng.normal(size=(n, shape.obs_dim)).astype(np.float32), rng.normal(size=n).astype(np.float32)
    at, nobody = np.arange(n), np.zeros(n, np.int64)
    taken = shape.numbers(weights, obs[None])[0] + np.float32(noise) * error
    return Samples(at, nobody, nobody, obs, taken, error), rng.normal(size=n).astype(np.float32)


@pytest.mark.parametrize("n", [512, 300, 20])
def test_an_update_is_our_own(n: int) -> None:
    """The last minibatch of a pass is full, half empty, or there is only one that is."""
    shape, config = Shape(5, (8, 6)), GroupsConfig(batch_size=64, passes=3, max_samples=400, max_grad_norm=0.05)
    weights = np.random.default_rng(1).normal(0, 0.3, shape.size).astype(np.float32)
    states = [TrainState.fresh(torch.from_numpy(weights.copy())) for _ in range(2)]
    rllib = RllibUpdates(config, shape)
    for update, (noise, rate) in enumerate([(0.3, 5e-3), (0.2, 3e-3)]):
        samples, gained = drawn(shape, n, noise, states[0].params.numpy().copy())
        settings = {"noise": noise, "rate": rate}
        improve(config, shape, states[0], samples, gained, **settings, rng=np.random.default_rng(update))
        rllib(states[1], samples, gained, **settings, rng=np.random.default_rng(update))
    own, theirs = states
    assert (own.params.numpy() - weights).std() > 5e-3
    assert torch.equal(own.counts, theirs.counts)
    for name in ("params", "mean", "square"):
        np.testing.assert_allclose(getattr(own, name), getattr(theirs, name), rtol=1e-3, atol=2e-5)


def test_no_samples_no_update() -> None:
    shape = Shape(2, (3,))
    state = TrainState.fresh(torch.from_numpy(shape.initial(np.random.default_rng(1))))
    samples, gained = drawn(shape, 0, 0.1, state.params.numpy())
    assert not RllibUpdates(RLLIB, shape)(state, samples, gained, noise=0.1, rate=0.1, rng=np.random.default_rng(1))
    assert state.updates == 0


def test_a_training_ends_where_our_own_does_and_can_be_resumed(tmp_path: Path) -> None:
    fit(CONFIG, lambda _: AimingEnv(), tmp_path / "own")
    fit(RLLIB, lambda _: AimingEnv(), tmp_path / "rllib")
    with pytest.raises(KeyboardInterrupt):
        fit(RLLIB, lambda _: cut(AimingEnv(), 700), tmp_path / "cut")  # type: ignore[type-var]
    fit(RLLIB, lambda _: AimingEnv(), tmp_path / "cut", resume=True)
    own, theirs, resumed = (weights_of(tmp_path / name / "policy.npz") for name in ("own", "rllib", "cut"))
    for a, b, c in zip(own, theirs, resumed, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
        np.testing.assert_array_equal(b, c)
    assert missed(tmp_path / "rllib" / "policy.npz") < 0.3 * missed(tmp_path / "rllib" / "policy_untrained.npz")
