# SPDX-License-Identifier: BSD-3-Clause
"""The tutorial's files can be added: the header compiles, ncc takes the others, and the names are free."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ncc.core.value import from_dict
from ncc.harness.controller import Controller
from ncc.results.notebook import scenario_of
from ncc.run.controllers import controller_names
from tests.baselines.test_headers import tool
from tests.house.files import ROOT

TEXT = (ROOT / "docs/tutorial/README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
(HEADER,) = [text for kind, text in BLOCKS if kind == "c"]
CONTROLLER, SCENARIO = (text for kind, text in BLOCKS if kind == "yaml")


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_compiles_without_a_warning(tmp_path: Path, language: str) -> None:
    (tmp_path / "aimd.h").write_text(HEADER)
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-const-variable", "-fsyntax-only", f"-I{ROOT / 'baselines'}"]
    source = '#include "aimd.h"\nconst struct ncc_cc_ops *table(void) { return &aimd_ops; }\n'
    subprocess.run([tool("g++"), "-x", language, *flags, f"-I{tmp_path}", "-"], input=source, text=True, check=True)


def test_its_yaml_is_a_controller_whose_name_is_free() -> None:
    made = from_dict(Controller, yaml.safe_load(CONTROLLER), "the tutorial's controller")
    assert made.stack.transport == "aimd"
    added = ROOT / "baselines/aimd.h"  # by a reader who has followed the tutorial in this checkout
    assert made.name not in controller_names() or added.read_text().splitlines()[:2] == HEADER.splitlines()[:2]


def test_its_scenario_is_what_it_says() -> None:
    """Its settings are composed by hand over the scenario that it begins with."""
    plain = yaml.safe_load(SCENARIO)
    assert plain["defaults"] == ["incast", "_self_"]
    queries = {f"scenario.workload.queries.{key}": value for key, value in plain["workload"]["queries"].items()}
    changes = {
        "scenario.topology.senders": plain["topology"]["senders"],
        **queries,
        "scenario.duration_s": plain["duration_s"],
    }
    made = scenario_of("incast", *(f"{key}={value}" for key, value in changes.items()))
    assert made.n_agents == 8
    assert sum(len(made.flows(seed)) for seed in range(3)) > 0
