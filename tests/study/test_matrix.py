# SPDX-License-Identifier: BSD-3-Clause
"""Every controller in every kind of network by one command: what it writes, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
from hydra.errors import HydraException

from ncc.core.errors import ConfigError, InvalidRunError
from ncc.matrix import main
from ncc.run.compose import composed
from ncc.run.config_files import read_config
from ncc.study.matrix import Matrix, page
from ncc.study.page import JSON, README
from tests.house.files import ROOT
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("in_one_process")
DOCS = ROOT / "docs" / "controllers"
OTHERS = ("rack_40", "rack_60", "two_datacentres", "leaf_spine")


def case(name: str, *overrides: str) -> str:
    """The composition of a case; Hydra wants overrides in a list quoted."""
    return f"cases.{name}.overrides=[{','.join(map(repr, overrides))}]"


SHORT = (
    *(f"~cases.{name}" for name in OTHERS),
    case("incast", "scenario=incast", "scenario.duration_s=0.02"),
    case("rack_80", "scenario=rack", "scenario.duration_s=0.02"),
    "controller=[dctcp,vegas]",
    "seeds=2",
    "workers=1",
)


def test_it_writes_what_was_delivered_and_keeps_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = composed("matrix", [*SHORT, "+cases.rack_80.params.vegas={beta_pkts: 6}", "docs=shown"])
    main(plain, [])
    summary = json.loads(Path("runs/matrix", JSON).read_text())
    assert Path("shown", README).read_text() == page(summary)
    assert list(summary["cases"]) == ["incast", "rack_80"]
    assert summary["controllers"] == {"dctcp": "DCTCP", "vegas": "Vegas"}
    for found in summary["cases"].values():
        dctcp, vegas = found["controllers"]["dctcp"], found["controllers"]["vegas"]
        assert dctcp["flows"] == vegas["flows"] == dctcp["finished"] == vegas["finished"] > 0
        cell = dctcp["metrics"]["slowdown_all_mean"]
        assert cell["mean"] == pytest.approx(sum(cell["per_seed"]) / 2, rel=1e-5)
        assert min(cell["per_seed"]) >= 1
    assert summary["cases"]["rack_80"]["controllers"]["vegas"]["params"] == {"beta_pkts": 6}
    assert "Parameters other than the defaults: Vegas: beta_pkts = 6." in page(summary)

    run = next(Path("runs/matrix/incast").rglob("flows.parquet"))
    before = run.stat().st_mtime_ns
    main(plain, [])
    assert run.stat().st_mtime_ns == before


def test_a_flow_that_is_not_delivered_is_an_error_that_names_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hurried = case("incast", "scenario=incast", "scenario.duration_s=0.02", "scenario.drain_s=1e-3")
    said = (
        "^some runs must not be used, and no summary is written: incast: controller 'dctcp'.* not delivered by 0.021 s"
    )
    with pytest.raises(InvalidRunError, match=said):
        main(composed("matrix", [*SHORT, hurried, "docs=shown"]), [])
    assert not list(tmp_path.rglob(README))
    assert list(Path("runs/matrix/rack_80").rglob("flows.parquet")), "the others have run"


@pytest.mark.parametrize(("overrides", "said"), table(__file__, "refused.yaml")["matrix"])
def test_refused_before_anything_runs(overrides: list[str], said: str) -> None:
    with pytest.raises((ConfigError, HydraException), match=re.escape(said)):
        Matrix.from_plain(composed("matrix", [*SHORT, *overrides]))


def test_what_is_published_is_whole() -> None:
    """In all networks of the YAML, to the last flow."""
    summary, asked = json.loads((DOCS / JSON).read_text()), read_config(".", "configuration", "matrix")
    assert (DOCS / README).read_text() == page(summary)
    assert {"bbr", "cubic", "dctcp", "fixed_share", "gemini", "ncc", "newreno", "vegas"} <= set(summary["controllers"])
    assert list(summary["cases"]) == list(asked["cases"])
    assert len(summary["seeds"]) == asked["seeds"] >= 10
    assert not any(commit.endswith("+") for commit in summary["commits"]), "made from a commit"
    for found in summary["cases"].values():
        for name, entry in found["controllers"].items():
            assert entry["finished"] == entry["flows"] > 0, name
