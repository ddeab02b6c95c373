# SPDX-License-Identifier: BSD-3-Clause
"""Editors see into the package as it is installed: jedi runs its import hooks, and pyright reads its paths."""

import sys
import sysconfig
from pathlib import Path

import jedi
import pytest


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import ncc; ncc.", {"__version__", "core", "envs", "agents", "baselines"}),
        ("from ncc.core.flows import ", {"FlowTable"}),
        ("from ncc.envs.scenarios import ", {"make_scenario"}),
    ],
)
def test_names_are_completed(line: str, expected: set[str], tmp_path: Path) -> None:
    project = jedi.Project(tmp_path, environment_path=sys.prefix)
    assert expected <= {found.name for found in jedi.Script(line, project=project).complete()}


def test_the_sources_are_on_a_path_that_is_found_without_running_anything() -> None:
    # pyright reads the plain lines of .pth files
    packages = Path(sysconfig.get_paths()["purelib"])
    lines = [line for file in packages.glob("*.pth") for line in file.read_text().splitlines()]
    assert any((Path(folder) / "ncc" / "__init__.py").is_file() for folder in [str(packages), *lines])
