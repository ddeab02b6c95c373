# SPDX-License-Identifier: BSD-3-Clause
"""Learning in simulations of others: what is seen and chosen, and that the return improves."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from ncc import bench
from ncc.agents.policy import load_policy
from ncc.core.errors import ConfigError, DatapathError, ResultError
from ncc.envs.ns3gym.actions import Choices
from ncc.envs.ns3gym.batch import Scales, SimulationBatch, SimulationFactory, flatten, measure_scales
from ncc.envs.ns3gym.schema import need_packages
from ncc.envs.ns3gym.spec import SimulationSpec
from ncc.harness.atomic import exclusive
from ncc.harness.manifest import read_manifest
from ncc.results.simulation_training import train
from ncc.run.folders import training_in
from ncc.run.learning import LEARNING, read_learning
from ncc.run.plan import TrainPlan
from ncc.run.simulation_plan import SimulationPlan, foreign_run
from tests.mains.commands import ncc
from tests.ns3gym.leaks import nothing_left


def _plan(command: str, **changes: Any) -> SimulationPlan:
    agent = {"learner": "a3c", "mode": "sync", "racks": 2, "epochs": 4_000, "learning_rate": 1e-2, "gamma": 0.5}
    env = {"kind": "ns3gym", "command": command, "probe_steps": 200, "judged_episodes": 1}
    env.update(changes.pop("env", {}))
    return SimulationPlan.from_plain({"seed": 1, "env": env, "agent": {**agent, **changes}})


def test_the_return_improves_over_the_untrained_policy(peer: str, tmp_path: Path) -> None:
    """Random choices earn 0.6 and the best 1: what is left of the way is less than half of what it was."""
    folder = tmp_path / "run"
    train(_plan(f"{peer} --spaces=dict --steps=1000"), folder, resume=False)
    returns = read_manifest(folder, "simulation_training").facts["returns"]
    untrained, trained = (np.mean(returns[name]) for name in ("untrained", "trained"))
    assert 0.4 < untrained < 0.8
    assert 1 - trained < 0.5 * (1 - untrained)
    assert (folder / "learning_curve.png").stat().st_size > 1000
    rows = read_learning(folder)
    assert 0.3 < np.mean([value for row in rows for value in row["returns"]]) < 1  # in the simulation's units
    assert json.loads((folder / "config.json").read_text())["env"]["kind"] == "ns3gym"
    _, meta = load_policy(folder / "policy.ncc")
    assert meta["scales"] == json.loads((folder / "scales.json").read_text())


def test_a_run_goes_on_where_it_was(peer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = {"probe_steps": 50}
    few = {"env": quick, "racks": 1, "checkpoint_epochs": 100}
    plan = _plan(f"{peer} --steps=200", **few, epochs=400)
    train(plan, tmp_path / "run", resume=False)
    assert foreign_run(tmp_path / "run")
    with pytest.raises(ResultError, match=r"is a simulation of others, without a scenario .*judge plays its policy"):
        TrainPlan.load(tmp_path / "run")
    train(SimulationPlan.load(tmp_path / "run"), tmp_path / "run", resume=True)
    assert "is finished; its policy is" in capsys.readouterr().out
    (tmp_path / "run" / "manifest.json").unlink()
    longer = _plan(f"{peer} --steps=200", **few, epochs=800)
    scales = (tmp_path / "run" / "scales.json").read_bytes()
    with exclusive(tmp_path / "run", "training"), pytest.raises(ResultError, match="another training is writing to"):
        train(longer, tmp_path / "run", resume=True)
    train(longer, tmp_path / "run", resume=True)
    epochs = [row["epochs"] for row in read_learning(tmp_path / "run")]
    assert epochs[-1] == 800
    assert epochs == sorted(epochs)
    assert (tmp_path / "run" / "scales.json").read_bytes() == scales


def test_choices_cover_every_kind_of_action() -> None:
    space = spaces.Tuple(
        [
            spaces.Discrete(4),
            spaces.Box(0, 1, (2,), np.float32),
            spaces.Dict(few=spaces.Box(3, 5, (1,), np.uint32), one=spaces.Discrete(1)),
        ]
    )
    choices = Choices(space, levels=5)
    assert choices.sizes.tolist() == [4, 5, 5, 3, 1]
    assert (choices.n_parts, choices.n_actions) == (5, 5)
    low, high = choices.action(np.zeros(5, np.int64)), choices.action(np.full(5, 4))
    assert (low[0], low[1].tolist(), low[2]["few"].tolist(), low[2]["one"]) == (0, [0, 0], [3], 0)
    assert (high[0], high[1].tolist(), high[2]["few"].tolist(), high[2]["one"]) == (3, [1, 1], [5], 0)
    seen = [choices.action(np.full(5, index)) for index in range(5)]
    assert all(space.contains((np.int64(a), b, {"few": c["few"], "one": np.int64(c["one"])})) for a, b, c in seen)
    assert {action[0] for action in seen} == {0, 1, 2, 3}


def test_a_box_without_bounds_cannot_be_chosen_from() -> None:
    with pytest.raises(ConfigError, match=r"action space\[1\] is a Box without bounds .* state low and high in the"):
        Choices(spaces.Tuple([spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (1,), np.float32)]), levels=5)


def test_simulations_side_by_side_are_what_they_are_alone(peer: str) -> None:
    """Each has its own seeds, by its number and the episode's; parts of an action are rows of one observation."""
    spec = SimulationSpec(command=f"{peer} --spaces=dict --steps=3")
    scales = Scales(obs_mean=(0.0,) * 6, obs_std=(1.0,) * 6)
    with nothing_left():
        two = pickle.loads(pickle.dumps(SimulationFactory(spec, scales, seed=1, racks=2)))(0)
        alone = SimulationBatch(spec, scales, 1, "train", first=1)
        both = two.reset(5)
        np.testing.assert_array_equal(both[1], alone.reset(5)[0])
        assert (two.n_racks, two.n_agents, two.n_actions, two.obs_dim) == (2, 2, 11, 2 + 2 + 2 + 2)
        np.testing.assert_array_equal(both[0, 0, -2:], [1, 0])
        np.testing.assert_array_equal(both[0, 1, -2:], [0, 1])
        for step in range(4):
            actions = np.full((2, 2), step % 11)
            moved, mine = two.step(actions), alone.step(actions[1:])
            np.testing.assert_array_equal(moved.obs[1], mine.obs[0])
            np.testing.assert_array_equal(moved.reward[1], mine.reward[0])
            assert moved.truncated.tolist() == [step % 3 == 2] * 2
            assert not moved.terminated.any()
        assert two.episode == alone.episode == 6
        two.close()
        alone.close()


def test_scales_make_numbers_of_any_size_alike(peer: str) -> None:
    spec = SimulationSpec(command=f"{peer} --spaces=dict --steps=150", probe_steps=300)
    scales = measure_scales(spec, seed=2)
    env = SimulationBatch(spec, scales, 2, "probe")
    seen = [env.reset()[0, 0]]
    seen += [env.step(np.zeros((1, 2), np.int64)).final_obs[0, 0] for _ in range(150)]
    env.close()
    flat = np.array(seen)[:, :-2]
    assert np.abs(flat.mean(axis=0)).max() < 0.3
    assert 0.8 < flat.std(axis=0).min() <= flat.std(axis=0).max() < 1.2
    far = Scales(obs_mean=(0.0,), obs_std=(1.0,)).apply(np.array([1e9]))
    assert far.tolist() == [10.0]


def test_what_cannot_be_trained_is_refused(peer: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.command says how to start the simulation, and is null"):
        SimulationSpec()
    plain = _plan(peer).plain
    with pytest.raises(ConfigError, match="leave out scenario=incast"):
        SimulationPlan.from_plain(plain, ["env=ns3gym", "scenario=incast"])
    with pytest.raises(ConfigError, match=r"asks for 2 simulations at a time, and env\.port=5555 is for one"):
        _plan(peer, env={"port": 5555}).build()
    with pytest.raises(ConfigError, match=rf"env\.command names '{tmp_path}/absent', which is not a program"):
        _plan(f"{tmp_path}/absent").build()


def test_a_simulation_that_fails_ends_the_training_with_what_it_said(peer: str, tmp_path: Path) -> None:
    with nothing_left(), pytest.raises(DatapathError, match="ended by itself with status 3 after step 5"):
        train(_plan(f"{peer} --fault=exit@5"), tmp_path / "run", resume=False)
    assert list(tmp_path.iterdir()) == []  # nothing was learnt


def test_a_simulation_that_fails_after_the_first_checkpoint_leaves_no_folder_either(tmp_path: Path) -> None:
    def failing() -> None:
        with training_in(tmp_path / "run", resume=False):
            (tmp_path / "run" / "checkpoints").mkdir()
            (tmp_path / "run" / "checkpoints" / "checkpoint-000000000000000.safetensors").write_bytes(b"untrained")
            if learnt:
                (tmp_path / "run" / LEARNING).write_text('{"epochs": 5}\n')
            raise DatapathError("the simulation ended")

    for learnt in (False, True):
        with pytest.raises(DatapathError):
            failing()
        assert (tmp_path / "run").exists() is learnt


def test_judging_begins_no_episode_in_vain(peer: str) -> None:
    """Whoever starts attached simulations starts as many as are judged."""
    scales = Scales(obs_mean=(0.0, 0.0), obs_std=(1.0, 1.0))
    spec = SimulationSpec(command=f"{peer} --steps=2")
    with nothing_left():
        env = SimulationBatch(spec, scales, 1, "judge", episodes=2)
        env.reset()
        moved = [env.step(np.zeros((1, 1), np.int64)) for _ in range(4)]
        assert [bool(one.truncated[0]) for one in moved] == [False, True, False, True]
        assert not np.array_equal(moved[1].obs, moved[1].final_obs)
        np.testing.assert_array_equal(moved[3].obs, moved[3].final_obs)
        with pytest.raises(DatapathError, match="no episode is running"):
            env.step(np.zeros((1, 1), np.int64))
        env.close()


def test_actions_too_many_to_learn_with_are_refused_before_they_are_made(peer: str) -> None:
    for space, why in (
        (spaces.Discrete(2**31 - 1), "has 2147483647 values, and 10000 at most can be chosen among"),
        (spaces.Tuple([]), "have no parts"),
    ):
        with pytest.raises(ConfigError, match=why):
            Choices(space, levels=11)
    with nothing_left(), pytest.raises(ConfigError, match="has 20000 values, and 10000 at most"):
        measure_scales(SimulationSpec(command=f"{peer} --actions=20000", probe_steps=5), seed=1)


def test_observations_are_numbers_as_gymnasium_has_them() -> None:
    space = spaces.Dict(
        b=spaces.Discrete(3), a=spaces.Tuple([spaces.Box(0, 1, (2, 2), np.float32), spaces.Discrete(2)])
    )
    space.seed(1)
    obs = space.sample()
    np.testing.assert_array_equal(flatten(space, obs), spaces.flatten(space, obs))
    assert [flatten(spaces.Discrete(3), value).tolist() for value in (2, 9, -1)] == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]


def test_a_missing_package_is_said_before_anything_begins(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(ConfigError, match="ns3-gym's protocol needs pyzmq, not installed here"):
        train(_plan(peer), tmp_path / "run", resume=False)
    monkeypatch.setattr("ncc.study.bench.stepping.over_the_wire", lambda **_: need_packages())
    assert bench.main(["protocol"]) == 2
    shown = capsys.readouterr()
    assert "(the extra ns3gym)" in shown.err
    assert "Measuring" not in shown.out
    assert list(tmp_path.iterdir()) == []


def test_another_simulation_than_that_of_the_training_is_refused(peer: str, tmp_path: Path) -> None:
    (tmp_path / "scales.json").write_text(Scales(obs_mean=(0.0,), obs_std=(1.0,)).to_json())
    with nothing_left(), pytest.raises(ConfigError, match="observes 2 numbers, and 1 when the training began"):
        train(_plan(peer), tmp_path, resume=True)
    (tmp_path / "config.json").write_text('{"env": {"kind": "ns3gym"}, "agent": {}, "seed": 1}')
    with pytest.raises(ResultError, match=r"Unknown agent\.learner"):
        SimulationPlan.load(tmp_path)


def test_the_command_trains_with_workers_and_refuses_what_is_not_its_own(peer: str, tmp_path: Path) -> None:
    refused = ncc("train", "env=ns3gym", f"env.command={peer}", "evaluation.seeds=3", cwd=tmp_path)
    assert refused.returncode == 2
    assert "leave out evaluation.seeds=3" in refused.stderr
    trained = ncc(
        "train", "env=ns3gym", f"env.command='{peer} --steps=400'", "env.probe_steps=50", "env.judged_episodes=1",
        "agent.workers=1", "agent.racks=1", "agent.epochs=400", "out=run", cwd=tmp_path,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert "Mean reward per step over 1 episode of other seeds: untrained +0." in trained.stdout
    assert read_manifest(tmp_path / "run", "simulation_training").facts["seed"] == 1
