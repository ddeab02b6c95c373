# SPDX-License-Identifier: BSD-3-Clause
"""What the first hour adds can be added: its header compiles, its files are what ncc takes, its names are free."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from ncc.controllers import controller_names
from ncc.core.value import from_dict
from ncc.harness.controller import Controller
from ncc.notebook import scenario_of
from tests.baselines.test_headers import tool
from tests.house.files import ROOT

TEXT = (ROOT / "docs/tutorial/README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
(HEADER,) = [text for kind, text in BLOCKS if kind == "c"]
(CARD,) = [text for kind, text in BLOCKS if kind == "markdown"]
CONTROLLER, SCENARIO = (text for kind, text in BLOCKS if kind == "yaml")


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_compiles_without_a_warning(tmp_path: Path, language: str) -> None:
    (tmp_path / "aimd.h").write_text(HEADER)
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-const-variable", "-fsyntax-only", f"-I{ROOT / 'baselines'}"]
    source = '#include "aimd.h"\nconst struct ncc_cc_ops *table(void) { return &aimd_ops; }\n'
    subprocess.run([tool("g++"), "-x", language, *flags, f"-I{tmp_path}", "-"], input=source, text=True, check=True)


ADDED = {"baselines/aimd.h": HEADER, "baselines/cards/aimd.md": CARD, "configs/controllers/aimd.yaml": CONTROLLER}


def followed(root: Path) -> bool:
    """Whether a reader has done step 5 there: what it adds lies there, if tinkered with below its first lines."""
    lie = [path for path in ADDED if (root / path).exists()]
    heads = [
        (text.splitlines()[:2], (root / path).read_text().splitlines()[:2])
        for path, text in ADDED.items()
        if path in lie
    ]
    assert all(ours == theirs for ours, theirs in heads), f"the tutorial adds what is there already: {', '.join(lie)}"
    return bool(lie)


def test_its_yaml_is_a_controller_whose_name_is_free() -> None:
    made = from_dict(Controller, yaml.safe_load(CONTROLLER), "the tutorial's controller")
    assert made.stack.transport == "aimd"
    assert made.name not in controller_names() or followed(ROOT)


def test_whoever_follows_it_is_told_from_a_name_that_is_taken(tmp_path: Path) -> None:
    assert not followed(tmp_path)
    for path, text in ADDED.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}tinkered with")
    assert followed(tmp_path)
    (tmp_path / "baselines/aimd.h").write_text("/* SPDX-License-Identifier: BSD-3-Clause */\n/* Another AIMD. */\n")
    with pytest.raises(AssertionError, match=r"the tutorial adds what is there already: baselines/aimd.h, "):
        followed(tmp_path)


def test_its_scenario_is_what_it_says() -> None:
    """Composed by hand: what it sets over the scenario that it begins with."""
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


def test_commands_name_what_exists() -> None:
    for options in re.findall(r"controller=\[([^\]]*)\]", TEXT):
        own = {"aimd", "policy.ncc"}
        assert set(options.split(",")) - own <= set(controller_names())
