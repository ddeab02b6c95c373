# SPDX-License-Identifier: BSD-3-Clause
"""Functions that the notebooks call, on folders that are not what they should be."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.harness.pool import Processes
from ncc.harness.results import Evaluation
from ncc.results.notebook import (
    QUICK,
    RUNS,
    busiest,
    choose,
    closeup,
    evaluate_here,
    evaluation_in,
    run_of,
    scenario_of,
    shown,
    trained_in,
    windows_of,
)
from ncc.study.result import JSON
from ncc.study.run import reread
from tests.support.experiments import fluid_run
from tests.support.here import Here
from tests.support.policies import write_policy

INCAST = ("scenario.topology.senders=4", "scenario.workload.queries.fan_in=4", "scenario.duration_s=0.03")


@pytest.fixture(autouse=True)
def _in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processes, "run", Here().run)


@pytest.fixture
def evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluation:
    monkeypatch.setenv(RUNS, str(tmp_path))
    return evaluate_here("test", scenario_of("incast", *INCAST), ["dctcp", "fixed_share"])


def test_an_evaluation_is_found_again_and_drawn(evaluation: Evaluation) -> None:
    again = evaluate_here("test", scenario_of("incast", *INCAST), ["dctcp", "fixed_share"])
    assert [run.manifest for run in again.runs] == [run.manifest for run in evaluation.runs], "nothing was run again"
    found = evaluation_in(evaluation.folder)
    runs = [run_of(found, name) for name in found.controllers]
    part = busiest(runs)
    traces = [windows_of(found, run, part.flows) for run in runs]
    figures = closeup(runs, part, traces)
    assert list(figures) == ["port", "flows", "windows", "limits_fixed_share"], "DCTCP limits no rate"
    for i, name in enumerate(("DCTCP", "fixed share")):
        took_ms = 1e3 * (runs[i].records.flows.finish_s - runs[i].flows.start_s)[part.flows]
        assert f"{name}: mean {took_ms.mean():.3g} ms, last {took_ms.max():.3g} ms" in figures["flows"].caption


def test_the_busiest_stretch_is_where_most_flows_arrive_at_once() -> None:
    run = fluid_run()
    finish_s = run.flows.start_s + 0.004
    start_s = run.flows.start_s
    n = 4
    gaps = [start_s[i + n - 1] - start_s[i] for i in range(len(start_s) - n + 1)]
    records = replace(run.records, flows=replace(run.records.flows, finish_s=finish_s))
    first = int(np.argmin(gaps))
    found = busiest([replace(run, records=records)], n, longest_s=1.0)
    assert found.flows.tolist() == list(range(first, first + n))
    inside = (start_s >= found.arrivals_s[0]) & (start_s < found.arrivals_s[1])
    assert inside.nonzero()[0].tolist() == found.flows.tolist()
    least_s = 30 * run.scenario.period_s
    assert found.window_s[1] == pytest.approx(start_s[first] + max(least_s, finish_s[first + n - 1] - start_s[first]))
    every = busiest([run], len(start_s), longest_s=1e-6)
    assert every.window_s[1] == pytest.approx(start_s[0] + max(least_s, start_s[-1] - start_s[0])), "all arrivals"
    assert len(busiest([run], 10**6).flows) == len(start_s)


def test_what_an_evaluation_lacks_is_named(evaluation: Evaluation) -> None:
    with pytest.raises(UnknownNameError, match=r"datapath in .*known: packetsim"):
        evaluation_in(evaluation.folder, "ns3")
    with pytest.raises(UnknownNameError, match=r"controller in .* 'ncc'; known: dctcp, fixed_share"):
        run_of(evaluation, "ncc")
    with pytest.raises(UnknownNameError, match=r"seed in .* '7'; known: 0"):
        run_of(evaluation, "dctcp", 7)
    with pytest.raises(ResultError, match="holds no training"):
        trained_in(evaluation.folder)
    (evaluation.folder / "dctcp" / "0" / "epochs.parquet").unlink()
    with pytest.raises(ResultError, match=r"epochs\.parquet is missing though the manifest lists it; run it again"):
        evaluation_in(evaluation.folder)


def test_quick_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(QUICK, raising=False)
    assert choose(quick=1, full=2) == 2
    monkeypatch.setenv(QUICK, "1")
    assert choose(quick=1, full=2) == 1
    monkeypatch.setenv(QUICK, "yes")
    with pytest.raises(ConfigError, match="NCC_QUICK must be 1"):
        choose(quick=1, full=2)


def test_a_scenario_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"scenario=incst: .*incst"):
        scenario_of("incst")
    with pytest.raises(ConfigError, match="period"):
        scenario_of("incast", "scenario.period=1")
    for other in ("duration_s=0.1", "seeds=3", "scenario=rack", "scenarios.x=1"):
        with pytest.raises(ConfigError, match=f"override '{other}' is not of a scenario"):
            scenario_of("incast", other)
    assert scenario_of("incast", "++scenario.duration_s=0.1").duration_s == 0.1


def test_windows_take_the_policy_that_the_run_was_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNS, str(tmp_path))
    scenario = scenario_of("incast", *INCAST)
    for name, action in (("made", 3), ("other", 10)):
        (tmp_path / name).mkdir()
        write_policy(tmp_path / name / "policy.ncc", scenario, action=action)
    evaluation = evaluate_here("elsewhere", scenario, ["ncc"], run=tmp_path / "made")
    run = run_of(evaluation, "ncc")
    assert np.isfinite(windows_of(evaluation, run, [0], training=tmp_path / "made").cwnd_bytes).any()
    with pytest.raises(ResultError, match=r"'ncc', seed 0 was made with is not that of .*/other; name the folder"):
        windows_of(evaluation, run, [0], training=tmp_path / "other")
    with pytest.raises(ResultError, match=r"is not that of a training above .*nor of the package; name the folder"):
        windows_of(evaluation, run, [0])
    with pytest.raises(ConfigError, match="is no folder"):
        windows_of(evaluation, run, [0], training=tmp_path / "nowhere")


def test_an_experiment_is_read_from_its_runs_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ncc.study.draw import draw
    from ncc.study.notebook import experiment_here, experiment_in, verdict_of

    monkeypatch.setenv(RUNS, str(tmp_path))
    result, _ = experiment_here("bcc_b4", "quick")
    folder = next(tmp_path.glob(f"notebooks/*/*/{JSON}")).parent
    again, courses = experiment_in(folder)
    assert again.table.values.keys() == result.table.values.keys()
    assert all(np.array_equal(v, result.table.values[k], equal_nan=True) for k, v in again.table.values.items())
    assert shown(draw, again, courses)._repr_png_().startswith(b"\x89PNG")
    draw(again, courses, tmp_path / "figure.svg")
    words = re.sub(r"<[^>]*>|\s+", "", (tmp_path / "figure.svg").read_text())
    for said in (f"{again.grid.experiment.paper.figure}: {again.grid.experiment.title}", again.outcome):
        assert re.sub(r"\s+", "", said) in words, "the claim is the paper's, and the verdict ours"
    assert "| holds |" in str(verdict_of(again))
    with pytest.raises(ConfigError) as wrong:
        experiment_in(tmp_path / "nowhere")
    (line,) = wrong.value._render_traceback_()
    assert line == f"error: run={tmp_path}/nowhere is no folder; name one that ncc train or ncc evaluate made"
    with pytest.raises(ResultError, match=r"holds no finished experiment: it has no result\.json"):
        reread(tmp_path)
    other = shutil.copytree(folder, tmp_path / "other")
    (other / JSON).write_text((folder / JSON).read_text().replace('"bcc_b4"', '"bcc_allocation"'))
    with pytest.raises(ResultError, match="another version of experiment bcc_allocation"):
        reread(other)
