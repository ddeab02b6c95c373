# SPDX-License-Identifier: BSD-3-Clause
"""Training on one datapath and judging on several, from end to end; a fluid model stands in for the fast one."""

import json
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.harness.manifest import read_manifest
from ncc.harness.results import load_evaluation
from ncc.results.judgement import load_judgement
from ncc.run.compose import datapath_names, datapaths_from, load_datapath, reference_last
from tests.house.files import ROOT
from tests.mains.commands import TINY, ncc
from tests.support.linux import needs

FLUID = "+datapath.fluid.target=tests.support.fluid:FluidDatapath"
TRAIN_ON_FLUID = ("datapath=ns3", "~datapath.ns3", FLUID)
"""Nothing but the fluid datapath, whatever the default is."""
SYNC = ("agent=a2c", "agent.racks=1", "agent.epochs=40", "agent.checkpoint_epochs=20")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=needs("objects") if name == "linux" else ()) for name in datapath_names()]
)
def test_what_has_a_configuration_can_be_loaded(name: str) -> None:
    spec = load_datapath(name)
    assert spec.name == name
    assert "dctcp" in spec.load()().transports()


def test_a_datapath_that_is_not_there_is_named() -> None:
    assert {"packetsim", "ns3"} <= set(datapath_names())
    with pytest.raises(UnknownNameError, match="Did you mean 'ns3'"):
        load_datapath("ns4")


@pytest.mark.parametrize("plain", [{"target": "ncc.envs.ns3.datapath:DATAPATH"}, ["ns3"], "ns3", None])
def test_a_datapath_has_a_name(plain: object) -> None:
    with pytest.raises(ConfigError, match="datapath must be a mapping of names to"):
        datapaths_from(plain)


def test_the_reference_comes_last_in_whatever_order_datapaths_are_named() -> None:
    packetsim, ns3 = load_datapath("packetsim"), load_datapath("ns3")
    for named in ((packetsim, ns3), (ns3, packetsim)):
        assert reference_last(named) == (packetsim, ns3)
    assert reference_last((packetsim,)) == (packetsim,)
    with pytest.raises(ConfigError, match="one datapath at most can be the reference of the others, got ns3, other"):
        reference_last((ns3, ns3.replace(name="other")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on the fluid datapath, judged there and on ns-3."""
    pytest.importorskip("torch", reason="training needs the torch extra")
    cwd = tmp_path_factory.mktemp("trained")
    settings = (*TINY, *SYNC, *TRAIN_ON_FLUID, "evaluation.datapaths=[fluid,ns3]", "out=run")
    done = ncc("train", *settings, cwd=cwd, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    (forecast,) = (line for line in done.stdout.splitlines() if line.startswith("Expected: about"))
    assert "epochs/s per core of fluid" in forecast
    assert ", ns3 " in forecast
    assert "rack on fluid and ns3: " in done.stdout
    assert "The datapaths do not agree within the tolerance: " in done.stdout
    return cwd / "run"


def test_each_datapath_has_its_results_and_all_have_the_same_flows(trained: Path) -> None:
    fluid, ns3 = (load_evaluation(trained / "evaluation" / name) for name in ("fluid", "ns3"))
    assert fluid.controllers == ns3.controllers == ("ncc", "ncc_untrained", "fixed_share", "dctcp")
    for one, other in zip(fluid.runs, ns3.runs, strict=True):
        assert (one.controller, one.seed) == (other.controller, other.seed)
        a, b = one.load(), other.load()
        assert (a.datapath, b.datapath) == ("fluid", "ns3")
        assert np.array_equal(a.flows.start_s, b.flows.start_s)
        assert not np.array_equal(a.records.flows.finish_s, b.records.flows.finish_s)
    for name in ("fluid", "ns3"):
        assert (trained / "evaluation" / name / "slowdown_cdf.png").stat().st_size > 1000
    manifest = read_manifest(trained, "training")
    assert {name: set(by) for name, by in manifest.facts["held_out_returns"].items()} == {
        name: set(fluid.controllers) for name in ("fluid", "ns3")
    }


def test_the_ratio_is_that_of_the_stored_runs(trained: Path) -> None:
    judgement = load_judgement(trained / "evaluation")
    assert judgement.datapaths == ("fluid", "ns3")
    mean = {
        name: np.mean([run["slowdown_all_mean"] for run in load_evaluation(folder).summaries()["dctcp"].values()])
        for name, folder in ((name, trained / "evaluation" / name) for name in judgement.datapaths)
    }
    ratio = judgement.ratio("fluid", "dctcp", "slowdown_all_mean").estimate
    assert ratio == pytest.approx(mean["fluid"] / mean["ns3"])


def test_a_policy_carries_over_to_another_datapath(trained: Path) -> None:
    arguments = ("run=run", "controller=[ncc,newreno]", "seeds=1", "workers=1", "datapath=ns3")
    done = ncc("evaluate", *arguments, cwd=trained.parent)
    assert done.returncode == 0, done.stderr
    (folder,) = (trained / "evaluations").iterdir()
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["ns3"]
    assert "Agreement" not in done.stdout


def test_judging_on_one_more_datapath_keeps_what_is_there(tmp_path: Path) -> None:
    arguments = ("controller=dctcp", "scenario=dumbbell", "duration_s=0.02", "seeds=1", "out=judged", "datapath=ns3")
    done = ncc("evaluate", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "judged" / "ns3" / "dctcp" / "0" / "manifest.json"
    before = run.stat().st_mtime_ns
    done = ncc("evaluate", *arguments, FLUID, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert "kept from before" in done.stderr
    assert run.stat().st_mtime_ns == before
    assert load_judgement(tmp_path / "judged").datapaths == ("fluid", "ns3")


def test_a_run_of_before_there_were_several_is_refused_in_a_sentence(trained: Path, tmp_path: Path) -> None:
    config = json.loads((trained / "config.json").read_text())
    config["datapath"] = {"target": "ncc.envs.ns3.datapath:DATAPATH"}
    del config["evaluation"]["datapaths"]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    for arguments in (("train", "resume=old"), ("evaluate", "run=old")):
        done = ncc(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert "old/config.json is no configuration of this version of ncc" in done.stderr
        assert "train again" in done.stderr
        assert len(done.stderr.splitlines()) == 1
