# SPDX-License-Identifier: BSD-3-Clause
"""Results are taken over when they are complete and newer, and pages show the paper's values beside ours."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncc.baselines.registry import transport_params
from ncc.core.errors import ResultError, UnknownNameError
from ncc.harness.datapath import HostStack
from ncc.run.controllers import load_controller
from ncc.study.checks_base import NOT_JUDGED, Finding
from ncc.study.experiments_page import full_tables, pages
from ncc.study.points import grid_of
from ncc.study.report import gather, main, old_results, read_all, tables
from ncc.study.result import FIGURE, JSON, Result
from ncc.study.spec import experiment_from
from ncc.study.table import At, Table
from tests.study.toy import PLAIN, toy

TOY = {"toy": experiment_from(toy(), "toy")[0]}


def result(preset: str = "full", seeds: int = 2, holds: bool | None = True, **changes: Any) -> Result:
    """A result of the toy, with made-up numbers: the queue is 10 KB per seed's number, and the link is full."""
    grid = grid_of("toy", *experiment_from(toy(**changes), "toy"), preset)
    values = {
        (measure, cell.contender, cell.point): tuple(
            10e3 * (seed + 1) if measure == "queue" else 1.0 for seed in range(seeds)
        )
        for measure in grid.experiment.measures
        for cell in grid.cells
    }
    expected: dict[tuple[str, str, At], float] = {("queue", "gentle", (10.0, "large")): 15e3}
    return Result(
        grid=grid,
        datapath="packetsim",
        seeds=tuple(range(seeds)),
        table=Table(axes=grid.axes, contenders=tuple(grid.experiment.contenders), values=values, expected=expected),
        findings={"less": Finding(holds, "1 < 2 | 3")},
        problems=(),
        n_flows=8,
        wall_s=1.0,
        cpu_s=1.0,
        commits=("abc",),
    )


def know_the_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy, and another, in place of the experiments on disk."""
    loaded = {"toy": experiment_from(toy(), "toy"), "other": experiment_from(toy(title="Other"), "other")}
    monkeypatch.setattr("ncc.study.report.experiment_names", lambda: tuple(loaded))
    monkeypatch.setattr("ncc.study.report.load_experiment", loaded.__getitem__)


def keep(found: Result, folder: Path) -> Path:
    folder.mkdir(parents=True)
    found.save(folder)
    (folder / FIGURE).write_bytes(b"picture")
    return folder


def test_a_complete_result_is_taken_over_once(tmp_path: Path) -> None:
    keep(result(), tmp_path / "runs" / "toy" / "packetsim")
    out = tmp_path / "docs"
    assert gather(tmp_path / "runs", out) == (["toy on packetsim"], [])
    assert (out / "toy_packetsim.png").read_bytes() == b"picture"
    assert gather(tmp_path / "runs", out) == ([], [])
    assert read_all(out)["toy"]["packetsim"] == result().to_dict() | {
        "written_at": read_all(out)["toy"]["packetsim"]["written_at"]
    }
    assert len((out / "toy.json").read_text().splitlines()) < 100, "a line per cell, not per number"


@pytest.mark.parametrize(
    "other",
    [result("quick", 1), result(seeds=1), replace(result(), grid=replace(result().grid, as_written=False))],
    ids=["quick", "too few seeds", "changed on the command line"],
)
def test_what_is_not_the_whole_experiment_is_not_published(other: Result, tmp_path: Path) -> None:
    keep(other, tmp_path / "runs" / "toy" / "packetsim")
    assert gather(tmp_path / "runs", tmp_path / "docs") == ([], [])


def test_what_no_commit_gave_is_refused_and_what_is_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    know_the_toy(monkeypatch)
    runs, out = tmp_path / "runs", tmp_path / "docs"
    dirty = keep(replace(result(holds=False), commits=("abc", "abc+")), runs / "dirty" / "packetsim")
    at = json.loads((dirty / JSON).read_text())
    taken, (why,) = gather(runs, out)
    assert not taken
    assert not out.exists()
    assert "toy on packetsim is left out" in why
    assert "(abc, abc+); commit them, delete that folder, and run ncc evaluate experiment=toy" in why
    assert main(["--runs", str(runs), "--out", str(out)]) == 1
    assert "toy on packetsim is left out" in capsys.readouterr().err

    clean = keep(result(), runs / "clean" / "packetsim")
    plain = json.loads((clean / JSON).read_text())
    (clean / JSON).write_text(json.dumps(plain | {"written_at": "2000-01-01T00:00:00"}))
    assert gather(runs, out) == (["toy on packetsim"], [why]), "an older clean one is not hidden"
    assert main(["--runs", str(runs), "--out", str(out)]) == 1
    assert read_all(out)["toy"]["packetsim"]["holds"]
    # What was published before is no news, whatever it was made at.
    kept = json.loads((out / "toy.json").read_text())
    (out / "toy.json").write_text(json.dumps(kept | {"results": {"packetsim": at}}))
    assert gather(runs, out) == ([], [])
    assert read_all(out)["toy"]["packetsim"] == at


def test_the_newest_result_of_a_datapath_wins_and_others_stay(tmp_path: Path) -> None:
    old = keep(result(holds=False), tmp_path / "runs" / "a" / "packetsim")
    keep(result(), tmp_path / "runs" / "b" / "packetsim")
    keep(replace(result(), datapath="ns3"), tmp_path / "runs" / "b" / "ns3")
    plain = json.loads((old / JSON).read_text())
    (old / JSON).write_text(json.dumps(plain | {"written_at": "2000-01-01T00:00:00"}))
    gather(tmp_path / "runs", tmp_path / "docs")
    found = read_all(tmp_path / "docs")["toy"]
    assert set(found) == {"ns3", "packetsim"}
    assert found["packetsim"]["holds"]


def test_the_page_has_the_claim_the_verdict_and_the_paper_s_values_beside_ours() -> None:
    results = {"toy": {"packetsim": result(holds=False).to_dict()}}
    of = pages(results, TOY, {})
    assert set(of) == {"README.md", "toy.md"}
    assert "**A toy.** On packetsim: **does not hold** (0 of 1).\n" in of["toy.md"]
    assert "| a shorter queue | **does not hold**: 1 &lt; 2 \\| 3 |" in of["toy.md"]
    assert (
        "(table 1) beside ours: queue (KB), paper / packetsim: DCTCP, k 10, size large: 15.0 / 15.0.\n" in of["toy.md"]
    )
    assert "![toy on packetsim](toy_packetsim.png)" in of["toy.md"]
    assert "| [toy](toy.md#toy) | A toy | Figure 1 | **does not hold** (0 of 1) |" in of["README.md"]


def test_the_index_marks_what_is_old_and_what_was_not_run() -> None:
    results = {"toy": {name: result().to_dict() for name in ("ns3", "packetsim")}}
    other, _ = experiment_from(toy(title="Another"), "toy")
    index = pages(results, {**TOY, "other": other}, {"toy": ["ns3"]})["README.md"]
    assert "| holds (1 of 1) *old* | holds (1 of 1) |" in index
    assert "| other *not run* | Another | Figure 1 |  |  |" in index


def test_what_is_not_judged_says_why_once() -> None:
    found = replace(result(), findings={"less": NOT_JUDGED})
    page = pages({"toy": {"packetsim": found.to_dict()}}, TOY, {})["toy.md"]
    assert "| a shorter queue | not judged: the preset leaves these points out |" in page


def test_of_many_points_that_hold_a_page_shows_the_first_and_the_last() -> None:
    def page(holds: bool, text: str) -> str:
        found = replace(result(), findings={"less": Finding(holds, text)})
        return pages({"toy": {"packetsim": found.to_dict()}}, TOY, {})["toy.md"]

    assert "| holds: k 1: 1; ...; k 4: 4 |" in page(True, "k 1: 1; k 2: 2; k 3: 3; k 4: 4")
    assert "| holds: k 1: 1; k 2: 2; k 3: 3 |" in page(True, "k 1: 1; k 2: 2; k 3: 3")
    assert "k 1: 1; k 2: 2; k 3: 3; k 4: 4 |" in page(False, "k 1: 1; k 2: 2; k 3: 3; k 4: 4")


def test_words_are_those_of_the_experiment_as_it_is_now() -> None:
    results = {"toy": {"packetsim": result().to_dict()}}
    now, _ = experiment_from(
        toy(
            title="Another title",
            notes="Another note.",
            paper__figure="Figure 2",
            checks__less__claim="said otherwise",
            checks__added=PLAIN["checks"]["less"] | {"claim": "looked at since"},
        ),
        "toy",
    )
    of = pages(results, {"toy": now}, {})
    assert "| Another title | Figure 2 |" in of["README.md"]
    assert "**Another title.** On packetsim" in of["toy.md"]
    assert "\nPaper. Written by `ncc report`;" in of["toy.md"]
    assert "- Paper: Figure 2, section 2." in of["toy.md"]
    assert "- Set-up: Another note." in of["toy.md"]
    assert "| said otherwise | holds: 1 &lt; 2 \\| 3 |" in of["toy.md"]
    assert "| looked at since | not judged in this result |" in of["toy.md"]
    assert "a shorter queue" not in of["toy.md"]


def test_a_result_is_old_when_what_would_run_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"toy": {"packetsim": result().to_dict()}}

    def old(**changes: Any) -> bool:
        return old_results(found, {"toy": experiment_from(toy(**changes), "toy")}) == {"toy": ["packetsim"]}

    assert not old()
    assert not old(title="Another", checks__less__claim="otherwise", measures__queue__label="line")
    assert old(scenario=PLAIN["scenario"] | {"duration_s": 0.2})
    assert old(measures__queue__statistic="max")
    assert old(presets__full__seeds=3)


def test_defaults_of_headers_and_controllers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = {"toy": experiment_from(toy(), "toy")}
    found = {"toy": {"packetsim": result().to_dict()}}
    assert not old_results(found, loaded)
    table = transport_params()
    first, *rest = table["newreno"]
    other = (replace(first, default=first.default + 1), *rest)
    with monkeypatch.context() as patched:
        patched.setattr("ncc.baselines.registry.transport_params", lambda: table | {"newreno": other})
        assert old_results(found, loaded)
    yaml = load_controller("newreno")
    monkeypatch.setattr(
        "ncc.study.points.load_controller",
        lambda name: load_controller(name) if name != "newreno" else yaml.replace(stack=HostStack(transport="vegas")),
    )
    assert old_results(found, loaded)


def test_verdicts() -> None:
    assert result().verdict == "shape holds: 1 of 1 checks hold; less: 1 < 2 | 3"
    assert result(holds=False).verdict.startswith("shape does not hold: 0 of 1 checks hold; less:")
    spoilt = replace(result(), problems=("seed 1: undelivered",))
    assert spoilt.verdict.startswith("shape holds: 1 invalid run; 1 of 1 checks hold"), (
        "checks know whose runs they are"
    )


def test_a_narrow_outcome_is_said_in_the_verdict_and_on_the_page() -> None:
    found = replace(result(), findings={"less": Finding(True, "1 < 2", narrow=True)})
    assert found.outcome == "shape holds: 1 of 1 checks hold, 1 narrowly decided (other seeds may turn it)"
    page = pages({"toy": {"packetsim": found.to_dict()}}, TOY, {})["toy.md"]
    assert "On packetsim: holds (1 of 1, 1 narrowly)." in page
    assert "| holds, narrowly: 1 &lt; 2 |" in page


def test_pages_say_how_many_runs_how_long_which_are_invalid_and_what_to_know() -> None:
    found = replace(result(), warnings={"gentle": ("outside its training: load 0.9, trained 0.1 to 0.8",)})
    plain = {"packetsim": found.to_dict()}
    runs = "On packetsim: 2 seeds of 0.1 s; commit abc"
    assert f"{runs}; with warnings: DCTCP." in pages({"toy": plain}, TOY, {})["toy.md"]
    shown = full_tables("toy", plain)
    assert "On packetsim: 2 seeds of 0.1 s;" in shown
    assert "† DCTCP: outside its training: load 0.9, trained 0.1 to 0.8." in shown
    assert "| queue (KB) | 10 | large | DCTCP † | 15.0 [10.0, 20.0] |" in shown
    assert "(1 invalid)" not in shown
    both = full_tables("toy", {"ns3": replace(found, datapath="ns3").to_dict(), **plain})
    assert "| contender | ns3 | packetsim |" in both
    assert "| queue (KB) | 10 | large | DCTCP † | 15.0 [10.0, 20.0] | 15.0 [10.0, 20.0] |" in both
    table = replace(found.table, invalid={("gentle", found.table.points()[0]): 1})
    plain = {"packetsim": replace(result(), table=table, problems=("seed 1: undelivered",)).to_dict()}
    assert f"{runs}; invalid runs, which count against their contenders: 1." in pages({"toy": plain}, TOY, {})["toy.md"]
    shown = full_tables("toy", plain)
    assert shown.count("(1 invalid)") == len(found.grid.experiment.measures)
    assert "against their contenders: seed 1: undelivered." in shown


def test_the_command_writes_the_pages_and_prints_every_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--runs", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "experiment=<name> preset=full" in capsys.readouterr().err
    keep(result(), tmp_path / "runs" / "toy" / "packetsim")
    out = tmp_path / "docs"
    assert main(["--runs", str(tmp_path / "runs"), "--out", str(out)]) == 1
    assert "toy.json is of no experiment in configs/experiment: delete it" in capsys.readouterr().err
    know_the_toy(monkeypatch)
    assert main(["--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "toy on packetsim: shape holds" in capsys.readouterr().out
    assert "holds (1 of 1) |" in (out / "README.md").read_text()
    assert "other *not run*" in (out / "README.md").read_text()
    (out / "gone.md").write_text((out / "toy.md").read_text())
    (out / "mine.md").write_text("# Mine\n")
    assert main(["--runs", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert "gone.md, as none of its experiments has a result" in capsys.readouterr().out
    assert sorted(path.name for path in out.glob("*.md")) == ["README.md", "mine.md", "toy.md"]
    before = sorted(out.iterdir())
    assert main(["toy", "--out", str(out)]) == 0
    assert capsys.readouterr().out == tables(["toy"], out) == full_tables("toy", read_all(out)["toy"])
    assert sorted(out.iterdir()) == before
    with pytest.raises(UnknownNameError, match=r"Unknown experiment with a result 'toys'.*Did you mean 'toy'\?"):
        tables(["toys"], out)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', '{"format": 1}', "{}"])
def test_damaged_results_are_refused(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "toy" / "packetsim"
    folder.mkdir(parents=True)
    (folder / JSON).write_text(text)
    with pytest.raises(ResultError, match="run the experiment again"):
        gather(tmp_path / "runs", tmp_path / "docs")
    (tmp_path / "toy.json").write_text(text)
    with pytest.raises(ResultError, match="delete it and report again"):
        read_all(tmp_path)
