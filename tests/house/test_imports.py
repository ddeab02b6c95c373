# SPDX-License-Identifier: BSD-3-Clause
"""Imports at run time: a light package stays light, whatever is imported of it."""

import json
import subprocess
import sys

import pytest

from tests.house.files import ROOT, tracked

HEAVY = ("torch", "ray", "ns", "ns3", "cppyy", "gymnasium", "pettingzoo", "hydra", "omegaconf", "tensorboard")
LIGHT = ("core", "metrics", "harness")


def loaded_by(module: str) -> list[str]:
    """Top-level packages, and ncc's extension modules, in a fresh interpreter that imported `module`."""
    code = (
        f"import json, sys, {module}; "
        "print(json.dumps(sorted({n.split('.')[0] for n in sys.modules} | {n for n in sys.modules if '._' in n})))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(ended.stdout)
    return names


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def modules(area: str) -> list[str]:
    return sorted(module_name(p) for p in tracked() if p.startswith(f"ncc/{area}/") and p.endswith(".py"))


@pytest.mark.parametrize("module", ["ncc", "ncc.train", "ncc.evaluate", "ncc.agents.policy"])
def test_entry_points_load_nothing_heavy(module: str) -> None:
    heavy = set(HEAVY) - ({"hydra", "omegaconf"} if module in {"ncc.train", "ncc.evaluate"} else set())
    loaded = loaded_by(module)
    assert not heavy & set(loaded)
    assert "ncc.envs.ns3._ns3" not in loaded


@pytest.mark.parametrize("area", LIGHT)
def test_light_packages_load_nothing_heavy(area: str) -> None:
    found = modules(area)
    assert len(found) > 3
    loaded = loaded_by(", ".join(found))
    assert not set(HEAVY) & set(loaded)
    assert "ncc.envs.ns3._ns3" not in loaded


def test_the_core_needs_numpy_and_msgspec_only() -> None:
    loaded = loaded_by(", ".join(modules("core")))
    assert {"numpy", "msgspec"} <= set(loaded)
    assert not {"scipy", "pyarrow", "matplotlib", "rich"} & set(loaded)
