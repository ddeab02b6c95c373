# SPDX-License-Identifier: BSD-3-Clause
"""`ncc evaluate record=true` as a user runs it."""

from pathlib import Path

import numpy as np
import pytest

from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.harness.episodes import FILE, read_episodes
from ncc.harness.results import load_evaluation
from ncc.harness.run import eval_flow_seed, recording_flow_seed
from tests.mains.commands import ncc

SETTINGS = (
    "scenario=rack",
    "scenario.topology.hosts=4",
    "scenario.topology.uplink_rate_bps=1e9",
    "scenario.workload.websearch.distribution=hadoop",
    "scenario.duration_s=0.02",
    "datapath=packetsim",
    "controller=[fixed_share,dctcp]",
    "seeds=2",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cwd = tmp_path_factory.mktemp("recorded")
    done = ncc("evaluate", "record=true", *SETTINGS, "env/reward=backlog", "first_seed=5", "out=kept", cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "never those that are held out" in done.stdout
    return cwd / "kept"


def test_every_run_has_its_episode_beside_its_tables(recorded: Path) -> None:
    evaluation = load_evaluation(recorded / "packetsim")
    assert [(run.controller, run.seed) for run in evaluation.runs] == [
        (controller, seed) for seed in (5, 6) for controller in ("fixed_share", "dctcp")
    ]
    for run in evaluation.runs:
        assert set(run.manifest.files) == {"flows.parquet", "epochs.parquet", "ports.parquet", FILE}
        (episode,) = read_episodes(run.folder)
        info = episode.info
        assert (info.controller, info.seed, info.datapath) == (run.controller, run.seed, "packetsim")
        assert info.reward["kind"] == "backlog"
        assert (episode.obs.shape, episode.actions.shape, episode.reward.shape) == ((21, 4, 17), (20, 4), (20, 4))
        epochs = run.load().epochs
        assert np.array_equal(episode.time_s[1:], epochs.time_s[:20])
        if run.controller == "fixed_share":  # a quarter of the link: between levels 2 and 3, and nearer to 3 by ratio
            assert (episode.actions == 3).all()


def test_its_flows_are_not_those_that_are_held_out(recorded: Path) -> None:
    evaluation = load_evaluation(recorded / "packetsim")
    for run in evaluation.runs:
        scenario = from_dict(Scenario, run.manifest.facts["scenario"], "scenario")
        found = run.load().flows
        assert np.array_equal(found.start_s, scenario.flows(recording_flow_seed(run.seed)).start_s)
        assert not np.array_equal(found.size_bytes, scenario.flows(eval_flow_seed(run.seed)).size_bytes)
        assert run.manifest.facts["flow_seed"] == recording_flow_seed(run.seed)


def test_what_is_recorded_is_kept_and_not_taken_for_an_evaluation(recorded: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in recorded.rglob(FILE)}
    assert len(before) == 4
    again = ncc(
        "evaluate", "record=true", *SETTINGS, "env/reward=backlog", "first_seed=5", "out=kept", cwd=recorded.parent
    )
    assert again.returncode == 0, again.stderr
    assert {path: path.stat().st_mtime_ns for path in recorded.rglob(FILE)} == before
    for other in (("record=true",), ()):  # another reward; and no recording at all
        done = ncc("evaluate", *other, *SETTINGS, "first_seed=5", "out=kept", cwd=recorded.parent)
        assert done.returncode == 1
        assert "holds the result of another experiment" in done.stderr


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("env.reward.rho=0.1", *SETTINGS), "env.reward.rho says how recorded hosts are seen"),
        (("env/reward=backlog", *SETTINGS), "give record=true"),
        (("record=true", "experiment=dctcp_queue"), "an experiment is judged on held-out flows and records nothing"),
        (("record=true", *SETTINGS, "env.action.kind=log"), "action indices need 'levels' or 'shares'"),
        (("record=true", *SETTINGS, "env.observation.neighbours=all"), "env.observation.neighbours"),
    ],
)
def test_what_cannot_be_recorded_is_said_in_a_sentence(tmp_path: Path, overrides: tuple[str, ...], said: str) -> None:
    done = ncc("evaluate", *overrides, "out=none", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "none").exists()
