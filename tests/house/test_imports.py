# SPDX-License-Identifier: BSD-3-Clause
"""Imports at run time: a light package stays light, whatever is imported of it."""

import json
import subprocess
import sys

import pytest

from tests.house.files import ROOT, tracked

HYDRA = {"hydra", "omegaconf"}
FRAMEWORKS = {
    "torch", "ray", "ns", "ns3", "cppyy", "gymnasium", "pettingzoo", "tensorboard", "ncc.envs.ns3._ns3", *HYDRA,
}  # fmt: skip
DRAWING = {"matplotlib", "pyarrow", "scipy"}
HELP = "import sys; sys.argv = ['ncc', '--help']; import runpy; runpy.run_module('ncc.{}', run_name='__main__')"


def modules(area: str) -> str:
    paths = [path for path in tracked() if path.startswith(f"ncc/{area}/") and path.endswith(".py")]
    assert len(paths) > 3
    return ", ".join(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths)


NEVER_LOADED = {
    "import ncc": FRAMEWORKS,
    "import ncc.train": FRAMEWORKS - HYDRA,
    "import ncc.evaluate": FRAMEWORKS - HYDRA,
    "import ncc.agents.policy; from ncc.agents.a3c.config import A3cConfig; A3cConfig().build()": {
        "ncc.envs", *FRAMEWORKS
    },
    "import ncc.agents.rllib.config": {"ray", "torch"},
    "import ncc.results.plot, ncc.results.table, ncc.harness.pool": {"matplotlib", "ncc.envs", *FRAMEWORKS},
    "import ncc.host.__main__, ncc.host.run": {
        "rich", "onnx", "onnxruntime", "asyncio", "http", *DRAWING, *FRAMEWORKS,
    },
    HELP.format("__main__"): {"numpy", "scipy", *FRAMEWORKS},
    HELP.format("train"): {*DRAWING, *FRAMEWORKS} - HYDRA,
    HELP.format("evaluate"): {*DRAWING, *FRAMEWORKS} - HYDRA,
    f"import {modules('core')}": {"rich", *DRAWING, *FRAMEWORKS},
    f"import {modules('metrics')}": FRAMEWORKS,
    f"import {modules('harness')}": FRAMEWORKS,
}  # fmt: skip
"""By what is run in a fresh interpreter: modules that it must do without."""


@pytest.mark.parametrize("code", NEVER_LOADED, ids=lambda code: code[:60])
def test_nothing_heavy_is_loaded(code: str) -> None:
    asked = f"import json, sys\ntry:\n  {code}\nexcept SystemExit: pass\nprint(json.dumps(list(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stdout.splitlines()[-1]))
    assert not loaded & NEVER_LOADED[code]
