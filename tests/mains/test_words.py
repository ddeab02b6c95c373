# SPDX-License-Identifier: BSD-3-Clause
"""Words of command lines, as people write them and as Hydra reads them."""

import pytest

from ncc.cli.words import as_hydra_reads, require_no_options
from ncc.core.errors import ConfigError
from ncc.train import _differing


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("controller=dctcp,ns3_cubic", "controller=[dctcp,ns3_cubic]"),
        ("controller=runs/one,mine:Agent", "controller=[runs/one,mine:Agent]"),
        ("controller=[dctcp,cubic]", "controller=[dctcp,cubic]"),
        ("datapath=packetsim,ns3", "datapath=[packetsim,ns3]"),
        ("datapath=ns3", "datapath=ns3"),
        ("evaluation.datapaths=packetsim", "evaluation.datapaths=[packetsim]"),
        ("run=runs/a,runs/b", "run=[runs/a,runs/b]"),
        ("out=runs/a,b", 'out="runs/a,b"'),
        ("out=runs/lr=0.1", 'out="runs/lr=0.1"'),
        ("scenario=rack,incast", "scenario=rack,incast"),
        ("env/reward=utility,backlog", "env/reward=utility,backlog"),
        ("seeds=3", "seeds=3"),
        ("transport.recovery=modern", "scenario.transport.recovery=modern"),
        ("+topology.red.pmax=0.1", "+scenario.topology.red.pmax=0.1"),
        ("~topology.red", "~scenario.topology.red"),
        ("scenario.topology.hosts=4", "scenario.topology.hosts=4"),
        ("duration_s=0.1", "duration_s=0.1"),  # the evaluation's own
    ],
)
def test_a_word_of_an_evaluation(typed: str, read: str) -> None:
    assert as_hydra_reads(["scenario=rack", typed], "evaluate") == ["scenario=rack", read]


def test_a_multirun_may_be_asked_for_by_its_key() -> None:
    assert as_hydra_reads(["hydra.mode=MULTIRUN", "seed=1,2"], "train")[1] == "seed=1,2"


def test_folders_of_a_multirun_say_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["ncc train", "-m", "seed=1,2", "env/reward=utility,backlog", "agent.gamma=0.9,0.99", "scenario=rack"]
    monkeypatch.setattr("sys.argv", words)
    job = ["seed=1", "env/reward=backlog", "agent.gamma=0.9", "scenario=rack"]
    assert _differing(job) == "_reward-backlog_gamma-0.9"
    monkeypatch.setattr("sys.argv", ["ncc train", "seed=1", "env/reward=backlog"])
    assert _differing(["seed=1", "env/reward=backlog"]) == ""


def test_commas_separate_the_runs_of_a_multirun() -> None:
    assert as_hydra_reads(["-m", "seed=1,2"], "train") == ["-m", "seed=1,2"]


def test_a_main_without_a_scenario_has_no_part_of_it() -> None:
    assert as_hydra_reads(["topology.hosts=4", "name=mine"], "export") == ["topology.hosts=4", "name=mine"]


@pytest.mark.parametrize(
    ("words", "write"),
    [
        (["--seeds", "3"], "seeds=3"),
        (["--seeds=3"], "seeds=3"),
        (["-n", "5"], "n=5"),
        (["--first-seed", "7"], "first_seed=7"),
        (["--consent", "scenario=rack"], "consent=<value>"),
    ],
)
def test_options_are_refused_with_what_to_write(words: list[str], write: str) -> None:
    with pytest.raises(ConfigError) as refused:
        require_no_options(words, "evaluate")
    option = words[0].partition("=")[0]
    assert str(refused.value) == (f"ncc evaluate has no option {option}; settings have no dashes: write {write}")


def test_options_of_every_main_are_taken() -> None:
    require_no_options([], "train")
    require_no_options(["-m", "--config-dir", "mine", "--cfg=job", "seed=-1"], "train")
