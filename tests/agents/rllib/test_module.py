# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's network is A3C's; train batches hold what A3C would make of the same epochs. Nothing here starts Ray."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")
torch = pytest.importorskip("torch")

from gymnasium.spaces import Box, Discrete  # noqa: E402 - behind the skip

from ncc.agents.a3c.network import NetShape, initial_params  # noqa: E402
from ncc.agents.a3c.network import policy_layers as a3c_layers  # noqa: E402
from ncc.agents.a3c.update import advantages  # noqa: E402
from ncc.agents.policy import NumberPolicy, load_policy, save_policy  # noqa: E402
from ncc.agents.rllib.batches import ppo_batch, values_of, vtrace_batch  # noqa: E402
from ncc.agents.rllib.env_runner import RackRollout  # noqa: E402
from ncc.agents.rllib.module import HostModule, policy_layers  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

OBS, ACTIONS, HIDDEN, SEED = 5, 4, (8, 6), 11
T, RACKS, HOSTS, GAMMA = 6, 3, 2, 0.9
pytestmark = pytest.mark.rllib


def module(*, numbers: bool = False, critic: bool = True) -> HostModule:
    noise = (0.2, 0.1, 1000)
    return HostModule(
        observation_space=Box(-np.inf, np.inf, (OBS,), np.float32),
        action_space=Box(-np.inf, np.inf, (1,), np.float32) if numbers else Discrete(ACTIONS),
        model_config={
            "hidden": HIDDEN,
            "seed": SEED,
            "critic": critic,
            "noise": noise,
        },
    )


def drift(made: HostModule) -> None:
    """Move the weights away from where they begin."""
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 0.3)


def rollout(rng: np.random.Generator) -> RackRollout:
    """Rack 0 terminates in step 2 and rack 1 is truncated in step 3 and, as rack 2 terminates, at the end."""
    terminated, truncated = np.zeros((T, RACKS), np.bool_), np.zeros((T, RACKS), np.bool_)
    terminated[2, 0] = truncated[3, 1] = truncated[T - 1, 1] = terminated[T - 1, 2] = True
    normal = rng.standard_normal
    return RackRollout(
        obs=normal((T, RACKS, HOSTS, OBS)).astype(np.float32),
        actions=rng.integers(ACTIONS, size=(T, RACKS, HOSTS)),
        logits=normal((T, RACKS, HOSTS, ACTIONS)).astype(np.float32),
        rewards=normal((T, RACKS, HOSTS)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        last_obs=normal((RACKS, HOSTS, OBS)).astype(np.float32),
        cut=((3, 1), (T - 1, 1)),
        cut_obs=normal((2, HOSTS, OBS)).astype(np.float32),
    )


def test_equal_seeds_give_a3cs_weights() -> None:
    shape = NetShape(OBS, HIDDEN, ACTIONS)
    params = initial_params(shape, SEED)
    made = module()
    assert made.shape == shape
    for ours, theirs in zip(policy_layers(made), a3c_layers(shape, params), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    _, value = shape.split(params)
    for (weight, bias), layer in zip(value, [made.value[0], made.value[2], made.value[4]], strict=True):
        assert torch.equal(layer.weight, weight)
        assert torch.equal(layer.bias, bias)


def test_the_policy_file_answers_as_the_module_does(tmp_path: Path) -> None:
    made = module()
    drift(made)
    save_policy(tmp_path / "policy.ncc", policy_layers(made), {})
    policy, _ = load_policy(tmp_path / "policy.ncc")
    obs = np.random.default_rng(0).standard_normal((50, OBS)).astype(np.float32)
    with torch.no_grad():
        logits = made.forward_inference({"obs": torch.from_numpy(obs)})["action_dist_inputs"].numpy()
    np.testing.assert_allclose(policy.logits(obs), logits, atol=1e-5)


def test_a_policy_of_numbers_starts_as_the_formula_and_its_file_holds_the_mean(tmp_path: Path) -> None:
    shape, made = NetShape(OBS, HIDDEN, 0), module(numbers=True)
    assert made.shape == shape
    for ours, theirs in zip(policy_layers(made), a3c_layers(shape, initial_params(shape, SEED)), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
    obs = np.random.default_rng(0).standard_normal((50, OBS)).astype(np.float32)
    given = {"obs": torch.from_numpy(obs)}
    with torch.no_grad():
        np.testing.assert_array_equal(made.forward_inference(given)["action_dist_inputs"][:, 0], 0)
        drift(made)
        mean = made.forward_inference(given)["action_dist_inputs"].numpy()[:, 0]
    save_policy(tmp_path / "policy.ncc", policy_layers(made), {})
    numbers = NumberPolicy(load_policy(tmp_path / "policy.ncc")[0].layers).act(obs, None)
    np.testing.assert_allclose(numbers, mean, atol=1e-5)
    assert mean.std() > 0.1


def test_noise_falls_and_travels_with_the_weights() -> None:
    made, other, obs = module(numbers=True), module(numbers=True), {"obs": torch.ones(1, OBS)}
    other.make_target_networks()
    for epochs, expected in ((0, 0.2), (500, 0.15), (1000, 0.1), (2000, 0.1)):
        made.lower_noise(epochs)
        other.set_state(made.get_state(inference_only=True))
        inputs = other.forward_exploration(obs)["action_dist_inputs"]
        drawn = other.get_exploration_action_dist_cls().from_logits(inputs.expand(4000, 2)).sample()
        assert drawn.std().item() == pytest.approx(expected, rel=0.1)
        torch.testing.assert_close(other.forward_target(obs)["target_network_action_dist_inputs"], inputs)


def test_numbers_have_gaussian_odds_in_batches() -> None:
    made, rng = module(numbers=True), np.random.default_rng(1)
    mean, noise = 0.5, 0.2
    logits = np.broadcast_to(np.array([mean, np.log(noise)], np.float32), (T, RACKS, HOSTS, 2))
    error = rng.standard_normal((T, RACKS, HOSTS)).astype(np.float32)
    one = replace(rollout(rng), logits=logits, actions=(mean + noise * error).astype(np.float32))
    density = -0.5 * error**2 - np.log(noise * np.sqrt(2 * np.pi))
    ppo = ppo_batch(made, [one], gamma=GAMMA, gae_lambda=1)
    np.testing.assert_allclose(ppo["action_logp"].numpy(), density.reshape(-1), rtol=1e-4)
    np.testing.assert_array_equal(ppo["actions"].numpy(), one.actions.reshape(-1, 1))
    vtrace = vtrace_batch(made, [one], gamma=GAMMA)
    np.testing.assert_allclose(vtrace["action_logp"].numpy(), np.moveaxis(density, 0, 2).reshape(-1), rtol=1e-4)


def test_without_a_critic_advantages_are_returns_of_the_rollout_and_can_be_cut() -> None:
    made, one = module(numbers=True, critic=False), rollout(np.random.default_rng(1))
    batch = ppo_batch(made, [one], gamma=GAMMA, gae_lambda=1, max_advantage=1.5)
    nothing = np.zeros_like(one.rewards)
    ends = {"terminated": one.terminated, "truncated": one.truncated}
    expected, _ = advantages(one.rewards, nothing, nothing, **ends, gamma=GAMMA, gae_lambda=1)
    scaled = expected.reshape(-1) / np.sqrt((expected**2).mean())
    np.testing.assert_allclose(batch["advantages"].numpy(), scaled.clip(-1.5, 1.5), rtol=1e-4)
    assert np.abs(scaled).max() > 1.5


def test_the_target_network_follows_only_when_told() -> None:
    made = module()
    made.make_target_networks()
    obs = {"obs": torch.ones(1, OBS)}
    with torch.no_grad():
        before = made.forward_target(obs)["target_network_action_dist_inputs"].clone()
        next(made.policy.parameters()).add_(1.0)
        assert torch.equal(made.forward_target(obs)["target_network_action_dist_inputs"], before)
        assert not torch.allclose(made.forward_inference(obs)["action_dist_inputs"], before)


def expected_of(made: HostModule, one: RackRollout, gae_lambda: float) -> tuple[np.ndarray, np.ndarray]:
    """Advantages and returns, from the value of what followed in the same episode."""
    values = values_of(made, one.obs)
    following = np.concatenate([values[1:], values_of(made, one.last_obs)[None]])
    for (t, rack), obs in zip(one.cut, one.cut_obs, strict=True):
        following[t, rack] = values_of(made, obs)
    ends = {"terminated": one.terminated, "truncated": one.truncated}
    return advantages(one.rewards, values, following, **ends, gamma=GAMMA, gae_lambda=gae_lambda)


def test_ppos_advantages_are_a3cs() -> None:
    made, rng = module(), np.random.default_rng(1)
    rollouts = [rollout(rng), rollout(rng)]
    batch = ppo_batch(made, rollouts, gamma=GAMMA, gae_lambda=0.8)
    expected, targets = [], []
    for one in rollouts:
        advantage, target = expected_of(made, one, gae_lambda=0.8)
        expected.append(advantage.reshape(-1))
        targets.append(target.reshape(-1))
    found = batch["advantages"].numpy()
    assert (found**2).mean() == pytest.approx(1, abs=1e-4)
    whole = np.concatenate(expected)
    np.testing.assert_allclose(found, whole / np.sqrt((whole**2).mean()), rtol=1e-4)
    np.testing.assert_allclose(batch["value_targets"].numpy(), np.concatenate(targets), rtol=1e-5)
    assert len(batch["obs"]) == 2 * T * RACKS * HOSTS


def test_vtrace_on_policy_gives_n_step_returns() -> None:
    """With the policy that acted, V-trace's targets are the n-step returns (Espeholt et al., 2018, remark 1)."""
    from ray.rllib.algorithms.impala.torch.vtrace_torch_v2 import make_time_major, vtrace_torch

    made, one = module(), rollout(np.random.default_rng(2))
    with torch.no_grad():
        logits = made.forward_inference({"obs": torch.from_numpy(one.obs)})["action_dist_inputs"].numpy()
    one = replace(one, logits=logits)
    batch = vtrace_batch(made, [one], gamma=GAMMA)
    values = values_of(made, batch["obs"].numpy())

    def by_time(flat: "Tensor") -> "Tensor":
        swapped: Tensor = make_time_major(flat, trajectory_len=T)
        return swapped

    discounts = GAMMA * (1 - by_time(batch["terminateds"]).float())
    targets, _ = vtrace_torch(
        target_action_log_probs=by_time(batch["action_logp"]),
        behaviour_action_log_probs=by_time(batch["action_logp"]),
        discounts=discounts,
        rewards=by_time(batch["rewards"]),
        values=by_time(torch.from_numpy(values)),
        bootstrap_values=torch.full((RACKS * HOSTS,), 1e6),  # RLlib's, of some other row: must not matter
    )
    _, expected = expected_of(made, one, gae_lambda=1.0)
    np.testing.assert_allclose(targets.numpy(), expected.reshape(T, -1), rtol=1e-4, atol=1e-5)
