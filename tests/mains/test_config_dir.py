# SPDX-License-Identifier: BSD-3-Clause
"""YAMLs of one's own: those of a folder are found wherever names are, and a scenario is also found by its path."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.run.config_files import config_paths, use_config_dir
from ncc.run.controllers import controller_names, load_controller
from tests.mains.commands import ncc, ncc_apart

CONTROLLER = "summary: DCTCP, gentler\nstack: {transport: dctcp}\n"
SCENARIO = """
defaults:
  - /schema/scenario@_here_: base
  - topology: rack
  - _self_
name: tiny
topology: {hosts: 4, uplink_rate_bps: 2.0e9}
workload:
  own: {kind: poisson, distribution: hadoop, load_frac: 0.3, sources: hosts, destinations: remotes}
duration_s: 0.02
"""
RECIPE = "# @package _global_\n# A short training.\ndefaults:\n  - override /scenario: tiny\n"
Main = Callable[..., str]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name, text in (("controllers/mine", CONTROLLER), ("scenario/tiny", SCENARIO), ("recipe/short", RECIPE)):
        file = tmp_path / "mine" / f"{name}.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    yield tmp_path / "mine"
    use_config_dir(None)


@pytest.fixture
def main(own: Path) -> Main:
    """Run a main beside the folder; what it printed, with its exit status where that is not 0."""

    def run(name: str, *arguments: str) -> str:
        done = ncc(name, *arguments, cwd=own.parent)
        return f"{done.returncode} {done.stderr}" if done.returncode else done.stdout

    return run


def test_names_are_found(own: Path, main: Main) -> None:
    use_config_dir(own)
    assert "mine" in controller_names()
    assert load_controller("mine").summary == "DCTCP, gentler"
    assert "short" in config_paths("recipe")
    assert "mine " in main("evaluate", "--config-dir", "mine", "controller=list")
    assert "A short training." in main("train", "--config-dir=mine", "recipe=list")
    assert "mine" not in main("evaluate", "controller=list"), "a folder is of one command"
    with pytest.raises(ConfigError, match="Unknown controller 'mine'"):
        load_controller("mine")


def test_hints_and_help_know_them(own: Path, main: Main) -> None:
    folder = ("--config-dir", "mine")
    assert "Did you mean 'tiny'" in main("train", *folder, "scenario=tinny")
    assert "Did you mean 'short'" in main("train", *folder, "recipe=shrt")
    assert "Did you mean 'mine'" in main("evaluate", *folder, "controller=[mien]", "scenario=tiny")
    assert "  scenario=tiny " in main("train", *folder, "scenario=tiny", "--help")
    for verb, key, file in (
        ("train", "scenario=tiny", "scenario/tiny"),
        ("evaluate", "controller=mine", "controllers/mine"),
        ("train", "recipe=short", "recipe/short"),
    ):
        name = file.partition("/")[2]
        refused = main(verb, key)
        assert refused.startswith(f"2 error: Unknown {key.partition('=')[0]} '{name}'")
        assert refused.endswith(f"mine/{file}.yaml has that name: add --config-dir mine.\n")
    unknown = main("train", "--config-name", "foo")
    assert unknown.startswith("2 error: Unknown configuration 'foo'")
    assert main("evaluate", "controller=quite_other").endswith(
        "<folder>/controllers/<name>.yaml with --config-dir <folder>.\n"
    )
    assert "--config-dir" not in main("evaluate", "controller=dctpc"), "a typing error needs no folder"


def test_they_run_in_processes_of_their_own(own: Path) -> None:
    few = ("controller=mine", "scenario=tiny", "datapath=packetsim", "seeds=1", "bounds=false", "workers=1")
    done = ncc_apart("evaluate", "--config-dir", "mine", *few, cwd=own.parent)
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout
    (folder,) = own.parent.glob("runs/*/packetsim")
    assert {"slowdown_cdf.png", "fct_by_size.png"} < {path.name for path in folder.iterdir()}


def test_a_scenario_is_the_same_by_its_path(own: Path, main: Main) -> None:
    few = ("controller=dctcp", "datapath=packetsim", "seeds=1", "bounds=false", "scenario.workload.own.load_frac=0.5")
    named = main("evaluate", "--config-dir", "mine", "scenario=tiny", *few, "out=named")
    assert "tiny on packetsim" in named
    (own.parent / "of my own").mkdir()
    moved = (own / "scenario/tiny.yaml").rename(own.parent / "of my own/1-tiny=.yaml")
    by_path = main("evaluate", f"scenario={moved.relative_to(own.parent)}", *few, "out=moved")
    assert by_path.replace("moved", "named") == named
    assert "hosts" in main("train", f"scenario={moved}", "--help", "scenario.topology")
    chosen = main("train", f"scenario={moved}", "scenario/topology=dumbbell", "--cfg", "job")
    assert "kind: dumbbell" in chosen, "its defaults can be overridden"


def test_a_file_without_a_name_is_named_after_itself(own: Path, main: Main) -> None:
    (own / "mesh.yml").write_text("defaults:\n  - incast\n")
    assert "name: mesh" in main("train", "scenario=mine/mesh.yml", "--cfg", "job")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere.yaml", "nowhere.yaml cannot be read: No such file or directory"),
        ("mine/", "mine cannot be read: Is a directory"),
        ("mine/list.yaml", "mine/list.yaml must be a mapping of keys, got list"),
        ("mine/broken.yaml", "mine/broken.yaml cannot be read as YAML"),
        ("mine/slip.yaml", "scenario has no field 'topologie'. Did you mean 'topology'?"),
    ],
)
def test_a_bad_path_of_a_scenario_is_refused(path: str, said: str, own: Path, main: Main) -> None:
    for name, text in (
        ("list", "[1, 2]"),
        ("broken", "a: [1\n"),
        ("slip", "defaults: [rack]\ntopologie: {hosts: 2}\n"),
    ):
        (own / f"{name}.yaml").write_text(text)
    refused = main("evaluate", f"scenario={path}", "controller=dctcp")
    assert refused.startswith(f"2 error: {said}"), refused
    assert len(refused.splitlines()) == 1
    assert not (own.parent / "runs").exists()


@pytest.mark.parametrize("name", ["controllers/dctcp", "scenario/rack", "recipe/ncc", "train"])
def test_a_name_that_exists_twice_is_refused(name: str, own: Path, main: Main) -> None:
    twice = own / f"{name}.yaml"
    twice.write_text("name: other\n")
    said = main("evaluate", "--config-dir", "mine", "controller=[dctcp]", "scenario=rack")
    file = f"{name}.yaml"
    assert said == f"2 error: mine/{file} has the name of a file of the package, {file}: call yours otherwise\n"
    assert not (own.parent / "runs").exists()


BAD = [
    ("controllers/mine.yaml", "name: dctcp\n", "must describe 'mine'"),
    ("controllers/mine.yaml", "[1, 2]", "must be a mapping"),
    ("controllers/mine.yaml", "a: [1\n", "cannot be read as YAML"),
    ("controllers/mine.yaml", "stack: {transprt: dctcp}", "transprt"),
]


@pytest.mark.parametrize(("file", "text", "said"), BAD, ids=[text for _, text, _ in BAD])
def test_a_malformed_file_is_refused(file: str, text: str, said: str, own: Path, main: Main) -> None:
    (own / file).write_text(text)
    refused = main("evaluate", "--config-dir", "mine", "controller=[mine]", "scenario=tiny")
    assert refused.startswith("2 error: ")
    assert said in refused
    assert len(refused.splitlines()) == 1
    assert not (own.parent / "runs").exists()


@pytest.mark.parametrize("text", ["duration_s: 1\n\tperiod_s: 1\n", "period_s: 1\nperiod_s: 2\n"])
def test_a_scenario_that_is_no_yaml_is_refused(text: str, own: Path, main: Main) -> None:
    (own / "scenario/tiny.yaml").write_text(text)
    refused = main("evaluate", "--config-dir", "mine", "controller=[dctcp]", "scenario=tiny")
    assert refused.startswith("2 error: a file cannot be read as YAML: ")
    assert "tiny.yaml" in refused
    assert len(refused.splitlines()) == 1


def test_a_folder_that_is_none_is_refused(own: Path, main: Main) -> None:
    assert main("evaluate", "--config-dir", "nowhere").startswith("2 error: --config-dir nowhere is no folder")
