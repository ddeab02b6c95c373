# SPDX-License-Identifier: BSD-3-Clause
"""Models of Stable-Baselines3 and RLlib as controllers: they decide what they decided in the environment."""

import json
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.measurement import Measurement
from ncc.core.receivers import parts
from ncc.core.value import from_dict
from ncc.envs.gym import RackEnv
from ncc.envs.make import env_spec
from ncc.envs.observation import SharedObserver
from ncc.envs.spaces import RackSpaces
from ncc.harness.controller import Controller, ModelLimit
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import measured, rack

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed (the extra dev)")
SCENARIO = rack()
HOSTS = SCENARIO.n_agents


def epochs(n: int) -> list[Measurement]:
    """Measurements in which the hosts differ."""
    queued = np.arange(HOSTS) * 20_000.0
    flows = np.arange(HOSTS)
    return [
        measured(SCENARIO, epoch, queued_bytes=queued * epoch, next_bytes=queued * epoch, queued_flows=flows)
        for epoch in range(n)
    ]


def environment(space: str, **settings: Any) -> RackEnv:
    return RackEnv(SCENARIO, space=space, **settings)  # type: ignore[arg-type]


class OneHost(gymnasium.Env[Any, Any]):
    """The spaces of one host, for a policy that all share."""

    def __init__(self, action: gymnasium.Space[Any]) -> None:
        whole = environment("multi_discrete").observation_space
        assert isinstance(whole, gymnasium.spaces.Box)
        self.observation_space = gymnasium.spaces.Box(-1.0, 3.0, (whole.shape[0] // HOSTS,), np.float32)
        self.action_space = action


def model_of(algorithm: str, env: gymnasium.Env[Any, Any]) -> Any:
    if algorithm in ("RecurrentPPO", "ARS"):
        contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed (the extra dev)")
        if algorithm == "ARS":  # no gradients, so its policy takes no learning rate
            return contrib.ARS("MlpPolicy", env, seed=1, policy_kwargs={"net_arch": [16]})
        return contrib.RecurrentPPO("MlpLstmPolicy", env, n_steps=8, seed=1, policy_kwargs={"lstm_hidden_size": 8})
    sizes = {} if algorithm in ("PPO", "A2C") else {"buffer_size": 10}
    return getattr(sb3, algorithm)("MlpPolicy", env, seed=1, policy_kwargs={"net_arch": [16]}, **sizes)


WHOLE = [
    ("PPO", "multi_discrete"),
    ("A2C", "discrete"),
    ("DQN", "discrete"),
    ("PPO", "box"),
    ("SAC", "box"),
    ("TD3", "box"),
    ("RecurrentPPO", "multi_discrete"),
    ("ARS", "box"),
]


@pytest.mark.parametrize(("algorithm", "space"), WHOLE)
def test_a_model_of_the_whole_rack(algorithm: str, space: str, tmp_path: Path) -> None:
    env = environment(space)
    model = model_of(algorithm, env)
    model.save(tmp_path / "model.zip")
    limiter = LimiterFactory(None)(load_controller(str(tmp_path / "model.zip")), SCENARIO)
    limiter.reset(SCENARIO, 1)
    spec = env_spec(SCENARIO, continuous=space == "box")
    spaces, observer = RackSpaces(spec, space), SharedObserver(spec.view.observation)  # type: ignore[arg-type]
    observer.reset(SCENARIO, seed=0)
    state = None
    for epoch, now in enumerate(epochs(5)):
        obs = observer.observe(now)
        action, state = model.predict(obs.ravel(), state, np.array([epoch == 0]), deterministic=True)
        assert np.array_equal(parts(limiter.decide(now))[0], spaces.limits_bps(action, obs))


@pytest.mark.parametrize(("algorithm", "continuous"), [("PPO", False), ("DQN", False), ("SAC", True)])
def test_a_policy_that_hosts_share(algorithm: str, continuous: bool, tmp_path: Path) -> None:
    box = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    model = model_of(algorithm, OneHost(box if continuous else gymnasium.spaces.Discrete(11)))
    model.save(tmp_path / "model.zip")
    limiter = LimiterFactory(None)(load_controller(str(tmp_path / "model.zip")), SCENARIO)
    limiter.reset(SCENARIO, 1)
    spec = env_spec(SCENARIO, continuous=continuous)
    spaces, observer = RackSpaces(spec), SharedObserver(spec.view.observation)
    observer.reset(SCENARIO, seed=0)
    for now in epochs(4):
        obs = observer.observe(now)
        each = np.array([model.predict(row, deterministic=True)[0] for row in obs]).ravel()
        np.testing.assert_allclose(parts(limiter.decide(now))[0], spaces.limits_bps(each, obs), rtol=1e-4)


def test_other_observations_and_actions_by_a_yaml(tmp_path: Path) -> None:
    settings = {"observation": {"neighbours": "pooled"}, "action": {"kind": "shares"}}
    model_of("PPO", environment("multi_discrete", **settings)).save(tmp_path / "model.zip")
    plain = {"kind": "model", "path": str(tmp_path / "model.zip")}
    factory = LimiterFactory(None)
    with pytest.raises(ConfigError, match=r"limit\.env\.observation"):
        factory(from_dict(Controller, {"name": "mine", "limit": plain}, "mine"), SCENARIO)
    limiter = factory(from_dict(Controller, {"name": "mine", "limit": {**plain, "env": settings}}, "mine"), SCENARIO)
    limiter.reset(SCENARIO, 1)
    assert parts(limiter.decide(epochs(1)[0]))[0].shape == (HOSTS,)
    with pytest.raises(ConfigError, match=r"Unknown key of limit.env .*'actoin'.* Did you mean 'action'\?"):
        factory(from_dict(Controller, {"name": "mine", "limit": {**plain, "env": {"actoin": {}}}}, "mine"), SCENARIO)


def test_noise_that_a_policy_learned_with_is_0_where_it_decides(tmp_path: Path) -> None:
    from ncc.envs.sb3 import HostVecEnv

    settings: dict[str, Any] = {"action": "log", "pairs": "mirror"}
    model = model_of("PPO", HostVecEnv(SCENARIO, num_racks=2, **settings))
    model.save(tmp_path / "model.zip")
    plain = {"kind": "model", "path": str(tmp_path / "model.zip")}
    factory = LimiterFactory(None)
    with pytest.raises(ConfigError, match=r"limit\.env\.pairs"):
        factory(from_dict(Controller, {"name": "mine", "limit": {**plain, "env": {"action": "log"}}}, "mine"), SCENARIO)
    limiter = factory(from_dict(Controller, {"name": "mine", "limit": {**plain, "env": settings}}, "mine"), SCENARIO)
    limiter.reset(SCENARIO, 1)
    spec = env_spec(SCENARIO, **settings)
    spaces, observer = RackSpaces(spec), SharedObserver(spec.view.observation)
    observer.reset(SCENARIO, seed=0)
    for now in epochs(4):
        obs = observer.observe(now)
        numbers = model.predict(np.pad(obs, ((0, 0), (0, 1))), deterministic=True)[0].ravel()
        np.testing.assert_allclose(parts(limiter.decide(now))[0], spaces.limits_bps(numbers, obs), rtol=1e-4)


def test_sampled_actions_depend_on_the_seed(tmp_path: Path) -> None:
    model_of("PPO", environment("multi_discrete")).save(tmp_path / "model.zip")
    limit = ModelLimit(path=str(tmp_path / "model.zip"), greedy=False)
    limiter = LimiterFactory(None)(Controller(name="mine", limit=limit), SCENARIO)
    drawn = []
    for seed in (1, 1, 2):
        limiter.reset(SCENARIO, seed)
        drawn.append([parts(limiter.decide(now))[0].tolist() for now in epochs(3)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_models_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    other = RackEnv(rack(hosts=6), space="multi_discrete")
    model_of("PPO", other).save(tmp_path / "model.zip")
    with pytest.raises(
        ConfigError, match=r"model.zip takes observations of shape \(\d+,\) .* 'small' has .*as many hosts"
    ):
        LimiterFactory(None)(load_controller(str(tmp_path / "model.zip")), SCENARIO)
    model_of("PPO", OneHost(gymnasium.spaces.Discrete(5))).save(tmp_path / "five.zip")
    with pytest.raises(ConfigError, match=r"gives actions Discrete\(5\)"):
        LimiterFactory(None)(load_controller(str(tmp_path / "five.zip")), SCENARIO)
    with pytest.raises(ConfigError, match=r"has .* or \(\d+,\) and MultiDiscrete\(\[11\] \* 64\) or .*\.pairs$"):
        LimiterFactory(None)(load_controller(str(tmp_path / "five.zip")), rack(hosts=64))  # in one line
    model_of("PPO", OneHost(gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32))).save(tmp_path / "unit.zip")
    with pytest.raises(ConfigError, match=r"gives actions Box\(0.0, 1.0"):
        LimiterFactory(None)(load_controller(str(tmp_path / "unit.zip")), SCENARIO)


def damaged(path: Path) -> dict[str, Path]:
    """Files that are no model, by what is said of them."""
    text, empty, hollow, foreign, no_weights = (path / f"{name}.zip" for name in "abcde")
    text.write_text("not a zip")
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("other", "x")
    with zipfile.ZipFile(hollow, "w") as archive:
        archive.writestr("data", "{}")
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("data", json.dumps({"policy_class": {"__module__": "no_such_package.policies"}}))
    model_of("PPO", environment("discrete")).save(path / "whole.zip")
    with zipfile.ZipFile(path / "whole.zip") as whole, zipfile.ZipFile(no_weights, "w") as archive:
        archive.writestr("data", whole.read("data"))
    return {
        "is no model of Stable-Baselines3": text,
        "'data'": empty,
        "'policy_class'": hollow,
        "cannot be built here|is no model": foreign,
        "'policy.pth'": no_weights,
        "there is no file": path / "none.zip",
    }


def test_files_that_are_no_model_are_refused(tmp_path: Path) -> None:
    for said, file in damaged(tmp_path).items():
        with pytest.raises(ConfigError, match=said) as refused:
            LimiterFactory(None)(load_controller(str(file)), SCENARIO)
        assert "\n" not in str(refused.value)


def test_a_changed_model_makes_other_runs(tmp_path: Path) -> None:
    factory, (file, folder) = LimiterFactory(None), (tmp_path / "model.zip", tmp_path / "checkpoint")
    folder.mkdir()
    for path in (file, folder / "state"):
        path.write_text("1")
    before = [factory.inputs(load_controller(str(path))) for path in (file, folder)]
    for path in (file, folder / "state"):
        path.write_text("2")
    after = [factory.inputs(load_controller(str(path))) for path in (file, folder)]
    assert len({str(found) for found in (*before, *after)}) == 4
