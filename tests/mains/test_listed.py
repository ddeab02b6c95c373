# SPDX-License-Identifier: BSD-3-Clause
"""Lists that mains print, and `--help`, which loads no heavy library."""

import subprocess
import sys
from pathlib import Path

import pytest

from ncc.run.compose import experiment_names, recipe_names
from ncc.run.config_files import config_paths
from tests.mains.commands import ncc


@pytest.mark.parametrize("main", ["train", "evaluate"])
def test_help_loads_no_heavy_library(main: str, tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['ncc', '--help']\n"
        f"try: runpy.run_module('ncc.{main}', run_name='__main__')\n"
        "finally:\n"
        "  print('LOADED', [m for m in ('torch', 'ray', 'gymnasium', 'pettingzoo', 'matplotlib', 'pyarrow', 'scipy',"
        " 'ncc.envs.ns3._ns3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scenario=" in done.stdout
    assert "LOADED []" in done.stdout


def listed(main: str, what: str, folder: Path) -> dict[str, str]:
    """Text of each name in a list."""
    done = ncc(main, what, cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert all(len(text) > 10 for text in lines.values())
    return lines


@pytest.mark.parametrize("main", ["evaluate", "train", "serve"])
def test_scenarios_are_listed_with_a_sentence(main: str, tmp_path: Path) -> None:
    lines = listed(main, "scenario=list", tmp_path)
    assert list(lines) == list(config_paths("scenario"))
    assert lines["rack"] == "16 hosts of 1 Gbit/s behind one 4 Gbit/s uplink."


def test_controllers_are_listed_with_where_they_run(tmp_path: Path) -> None:
    lines = listed("evaluate", "controller=list", tmp_path)
    assert {"ncc", "dctcp", "newreno", "fixed_share", "ns3_cubic"} <= set(lines)
    assert "ns3, packetsim" in lines["dctcp"]
    assert "packetsim" not in lines["ns3_cubic"]


def test_experiments_are_listed_with_their_paper(tmp_path: Path) -> None:
    lines = listed("evaluate", "experiment=list", tmp_path)
    assert tuple(lines) == experiment_names()
    assert "SIGCOMM 2010" in lines["dctcp_queue"]


def test_recipes_are_listed(tmp_path: Path) -> None:
    assert tuple(listed("train", "experiment=list", tmp_path)) == recipe_names()
