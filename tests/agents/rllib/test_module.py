# SPDX-License-Identifier: BSD-3-Clause
"""RLlib's network is A3C's, rollouts go through its environment, and batches hold A3C's advantages; no Ray starts.

Functions import RLlib, as only one of the processes that run tests needs it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from ncc.agents.a3c.network import NetShape, initial_params
from ncc.agents.a3c.network import policy_layers as a3c_layers
from ncc.agents.a3c.update import advantages
from ncc.agents.policy import MlpPolicy, NumberPolicy, load_policy, save_policy
from ncc.agents.rllib.config import RllibConfig
from ncc.core.errors import InvalidRunError
from tests.agents.toy_envs import Identity, broken

if TYPE_CHECKING:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from ncc.agents.rllib.env import Period
    from ncc.agents.rllib.module import HostModule

OBS, ACTIONS, HIDDEN, SEED = 5, 4, (8, 6), 11
T, RACKS, HOSTS, GAMMA = 6, 3, 2, 0.9
pytestmark = pytest.mark.rllib


def module(*, numbers: bool = False, critic: bool = True) -> "HostModule":
    from ncc.agents.rllib.module import HostModule

    return HostModule(
        observation_space=Box(-np.inf, np.inf, (OBS,), np.float32),
        action_space=Box(-np.inf, np.inf, (1,), np.float32) if numbers else Discrete(ACTIONS),
        model_config={"hidden": HIDDEN, "seed": SEED, "critic": critic, "noise": (0.2, 0.1, 1000)},
    )


def drift(made: "HostModule") -> None:
    """Move the weights away from where they begin."""
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 0.3)


def periods(rng: np.random.Generator) -> "list[Period]":
    """Rack 0 terminates in step 2 and rack 1 is truncated in step 3 and, as rack 2 terminates, at the end."""
    from ncc.agents.rllib.env import Period

    terminated, truncated = np.zeros((2, T, RACKS), np.bool_)
    terminated[2, 0] = truncated[3, 1] = truncated[T - 1, 1] = terminated[T - 1, 2] = True
    rewards = rng.standard_normal((T, RACKS, HOSTS)).astype(np.float32)
    final = rng.standard_normal((T, RACKS, HOSTS, OBS)).astype(np.float32)
    return [Period(*each) for each in zip(rewards, terminated, truncated, final, strict=True)]


def rollout(made: "HostModule", seed: int, *, told: list[Any] | None = None, width: int = OBS) -> "SingleAgentEpisode":
    """A rollout as RLlib hands it to the learner; `width` numbers are observed, of which the module sees `OBS`."""
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from ncc.agents.rllib.env import PERIOD

    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((T + 1, RACKS, HOSTS, width)).astype(np.float32)
    told = told or list(periods(rng))
    with torch.no_grad():
        out = [made.forward_exploration({"obs": torch.from_numpy(each)}, t=500) for each in obs[:-1]]
    one = SingleAgentEpisode(
        observations=list(obs),
        actions=[each["actions"].numpy() for each in out],
        rewards=[0.0] * T,
        infos=[{}, *({PERIOD: each} for each in told)],
        extra_model_outputs={"action_dist_inputs": [each["action_dist_inputs"].numpy() for each in out]},
        truncated=True,
        len_lookback_buffer=0,
    )
    return one.to_numpy()


def batch(made: "HostModule", *rollouts: "SingleAgentEpisode", **settings: Any) -> Any:
    from ncc.agents.rllib.ppo import HostBatches

    class Modules(dict[str, Any]):
        pass

    made.unwrapped = lambda: made
    pipeline = HostBatches(config=RllibConfig(gamma=GAMMA, **settings))
    return pipeline(rl_module=Modules(default_policy=made), batch={}, episodes=list(rollouts))["default_policy"]


def expected(made: "HostModule", one: "SingleAgentEpisode") -> tuple[np.ndarray, np.ndarray]:
    """Advantages and returns, from the value of what followed in the same episode."""
    from ncc.agents.rllib.env import PERIOD

    def values(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return made.compute_values({"obs": torch.from_numpy(obs)}).numpy()

    obs, told = one.get_observations(), [info[PERIOD] for info in one.get_infos(slice(1, None))]
    following = values(obs[1:])
    for t, rack in ((3, 1), (T - 1, 1)):
        following[t, rack] = values(told[t].final_obs[rack])
    rewards, terminated, truncated = (np.stack([period[i] for period in told]) for i in range(3))
    paid = rewards * np.float32(1 - GAMMA)
    return advantages(paid, values(obs[:-1]), following, terminated=terminated, truncated=truncated, gamma=GAMMA)


@pytest.mark.parametrize("numbers", [False, True])
def test_equal_seeds_give_a3cs_weights_and_the_policy_file_answers_as_the_module(
    tmp_path: Path, *, numbers: bool
) -> None:
    from ncc.agents.rllib.module import policy_layers

    made, shape = module(numbers=numbers), NetShape(OBS, HIDDEN, 0 if numbers else ACTIONS)
    assert made.shape == shape
    params = initial_params(shape, SEED)
    for ours, theirs in zip(policy_layers(made), a3c_layers(shape, params), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])
    value_layers: Any = [made.value[i] for i in (0, 2, 4)]
    for (weight, bias), layer in zip(shape.split(params)[1], value_layers, strict=True):
        assert torch.equal(layer.weight, weight)
        assert torch.equal(layer.bias, bias)
    obs = np.random.default_rng(0).standard_normal((50, OBS)).astype(np.float32)
    given = {"obs": torch.from_numpy(obs)}
    if numbers:
        assert not made.forward_inference(given)["action_dist_inputs"][:, 0].any(), "the formula as it is"
    drift(made)
    answered = made.forward_inference(given)["action_dist_inputs"].numpy()
    save_policy(tmp_path / "policy.ncc", policy_layers(made), {})
    layers = load_policy(tmp_path / "policy.ncc")[0].layers
    read = NumberPolicy(layers).act(obs, None) if numbers else MlpPolicy(layers).logits(obs)
    np.testing.assert_allclose(read, answered[:, 0] if numbers else answered, atol=1e-5)
    assert answered[:, 0].std() > 0.1


def test_noise_falls_unless_it_is_observed_and_learning_keeps_what_was_in_use() -> None:
    made, obs = module(numbers=True), torch.ones(4000, OBS)
    for t, deviation in ((0, 0.2), (500, 0.15), (1000, 0.1), (2000, 0.1)):
        out = made.forward_exploration({"obs": obs}, t=t)
        assert out["actions"].std().item() == pytest.approx(deviation, rel=0.1)
        trained = made.forward_train({"obs": obs, "action_dist_inputs": out["action_dist_inputs"]})
        torch.testing.assert_close(trained["action_dist_inputs"], out["action_dist_inputs"])
    drift(made)
    noise = torch.linspace(-2, 2, 4000)
    seen = made.forward_exploration({"obs": torch.cat([obs, noise[:, None]], 1)}, t=500)
    torch.testing.assert_close(seen["actions"], seen["action_dist_inputs"][:, 0] + 0.15 * noise)


@pytest.mark.parametrize("critic", [True, False])
def test_advantages_are_a3cs(*, critic: bool) -> None:
    made = module(critic=critic)
    drift(made)
    rollouts = [rollout(made, 1), rollout(made, 2)]
    advantage, returns = (
        np.stack(parts).reshape(-1) for parts in zip(*(expected(made, each) for each in rollouts), strict=True)
    )
    scaled = advantage / np.sqrt((advantage**2).mean())
    found = batch(made, *rollouts)
    np.testing.assert_allclose(found["advantages"].numpy(), scaled, rtol=1e-4)
    np.testing.assert_allclose(found["value_targets"].numpy(), returns, rtol=1e-5)
    odds = torch.log_softmax(found["action_dist_inputs"], -1)
    torch.testing.assert_close(found["action_logp"], odds.gather(1, found["actions"][:, None])[:, 0])
    cut = batch(made, *rollouts, max_advantage=1.5)["advantages"].numpy()
    np.testing.assert_allclose(cut, scaled.clip(-1.5, 1.5), rtol=1e-4)
    assert np.abs(scaled).max() > 1.5


def test_numbers_have_gaussian_odds_and_networks_do_not_see_noise() -> None:
    made = module(numbers=True)
    drift(made)
    found = batch(made, rollout(made, 1, width=OBS + 1))
    assert found["obs"].shape == (T * RACKS * HOSTS, OBS)
    error = (found["actions"] - found["action_dist_inputs"][:, :1])[:, 0] / 0.15
    torch.testing.assert_close(found["action_logp"], -0.5 * error**2 - np.log(0.15 * np.sqrt(2 * np.pi)))


def test_what_cannot_be_learnt_from_is_told() -> None:
    made, told = module(), periods(np.random.default_rng(1))
    with pytest.raises(InvalidRunError, match="env runner 0: the simulator gave up"):
        batch(made, rollout(made, 1, told=[*told[:-1], "env runner 0: the simulator gave up"]))
    told[2].rewards[1, 0] = np.nan
    with pytest.raises(InvalidRunError, match="reward of host 0 in rack 1 is nan"):
        batch(made, rollout(made, 1, told=told))


def test_rollouts_follow_each_other_and_racks_begin_episodes_by_themselves() -> None:
    from ncc.agents.rllib.env import PERIOD, EnvSettings, RolloutEnv

    env = RolloutEnv({"settings": EnvSettings(Identity((5, 5)), rollout=3, episode=7)})
    env.make(0)
    inner: Any = env._env
    obs, _ = env.reset()
    for rollout_number in range(4):
        for t in range(3):
            obs, _, terminated, truncated, info = env.step(obs.argmax(-1))
            assert (bool(terminated[0]), bool(truncated[0])) == (False, t == 2)
            told = info[PERIOD][0]
            assert told.rewards.tolist() == [[1, 1], [1, 1]]
            ended = (3 * rollout_number + t) % 5 == 4
            assert told.truncated.tolist() == [ended, ended]
            assert (told.final_obs is not None) == ended
        np.testing.assert_array_equal(env.reset()[0], obs)
    assert inner.resets == [7]
    assert env.take_metrics() == ([1.0] * 4, {})
    assert env.take_metrics() == ([], {})
    env.close()
    assert inner.closed


def test_an_environment_that_fails_says_so_to_the_end_of_the_rollout() -> None:
    from ncc.agents.rllib.env import PERIOD, EnvSettings, RolloutEnv

    env = RolloutEnv({"settings": EnvSettings(broken, rollout=2, episode=0)})
    env.make(0)
    env.reset()
    for last in (False, True):
        _, _, _, truncated, info = env.step(np.zeros((1, 2, 2), np.int64))
        assert info[PERIOD].tolist() == ["env runner 0: the simulator gave up at 0.25 s"]
        assert truncated.tolist() == [last]
