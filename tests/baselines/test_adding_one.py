# SPDX-License-Identifier: BSD-3-Clause
"""Additions in a copy of the sources, which are built and run.

A controller is one header, one card and one YAML, and so is a program of a switch. A measured column is a field of the
table, and a line where it is measured. A feature of the observation is YAML and one function.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncc.harness.columns import numpy_column
from ncc.harness.results import load_evaluation
from tests.baselines import toy
from tests.baselines.test_headers import tool
from tests.docs.quoted import assert_printed, blocks, quoted
from tests.house.files import ROOT

SOURCES = (
    "CMakeLists.txt",
    "agents",
    "baselines",
    "configs",
    "docs/__init__.py",
    "docs/hooks",
    "envs",
    "ncc",
    "tests/__init__.py",
    "tests/baselines",
    "tests/mains/__init__.py",
    "tests/mains/commands.py",
    "tests/support",
)
TUTORIAL, GOLDEN = "docs/tutorial/README.md", "python -m tests.baselines.golden"
FILES = (
    "baselines/aimd.h",
    "baselines/cards/aimd.md",
    "configs/controllers/aimd.yaml",
    "configs/scenario/small_incast.yaml",
)
TAUGHT = dict(zip(FILES, [text for kind, text in blocks(TUTORIAL) if kind in ("c", "markdown", "yaml")], strict=True))
"""Files that the tutorial adds, and their text."""
ADDED = {
    **TAUGHT,
    "baselines/toy_port.h": toy.PORT_HEADER,
    "baselines/cards/toy_port.md": toy.PORT_CARD,
    "configs/scenario/toy_port.yaml": toy.PORT_YAML,
}
MEASURED = {
    "ncc/core/signals.py": (
        "    active_left: FloatArray",
        '    mean_wait_s: FloatArray = signal("host", "s", "mean wait of queued flows", "0 without one")\n',
    ),
    "envs/native/measure.h": (
        "    out.queued_flows[i] = queued_flows;\n",
        "    out.mean_wait_s[i] = queued_flows > 0 ? out.wait_s[i] / static_cast<double>(queued_flows) : 0;\n",
    ),
}
"""By file: a line of it, and the line that is added before that."""
FEATURE = (
    (
        "envs/observation/features.yaml",
        "  fair share:\n",
        "  busy neighbours: {kind: busy_neighbours, means: number over 10}\n",
    ),
    ("envs/observation/features.yaml", "    ages: &ages", "      - [busy neighbours]\n"),
    (
        "envs/observation/kinds.h",
        "NCC_FEATURE(fair_share)",
        "NCC_FEATURE(busy_neighbours) { return static_cast<double>(host.busy) / 10; }\n",
    ),
)
"""A file, a line of it, and the line that is added before that: another number of pooled neighbours."""
MODULES = {"_baselines": "baselines", "_packetsim": "envs/packetsim", "_observation": "envs/observation"}
PACKAGES = next(path for path in sys.path if (Path(path) / "numpy" / "__init__.py").exists())
USED = """
import contextlib, io, json, sys
from pathlib import Path
import pytest
from ncc.core.measurement import idle
from ncc.envs.make import env_spec
from ncc.envs.observation import SharedObserver, names_of
from tests.baselines.golden.__main__ import main
from tests.mains.commands import here

def ran(*arguments):
    done = here("evaluate", *arguments, cwd=Path.cwd())
    return done.returncode, done.stdout, done.stderr

packetsim, done = ("scenario=dumbbell", "datapath=packetsim", "seeds=1", "workers=1"), {}
done["compared"] = ran("controller=[aimd,dctcp]", *packetsim, "out=o")
done["ported"] = ran("controller=dctcp", "scenario=toy_port", *packetsim[1:], "out=p")
done["listed"] = ran("controller=list")
done["taught"] = ran(*{taught})
done["misspelt"] = ran("controller=aimd", "scenario=smal_incast")
from docs.hooks.figures import filled
from ncc.baselines.registry import controllers
spec = env_spec(hosts=4, observation="pooled")
m = idle(4, 1)
m.queued_flows[:] = [0, 1, 2, 0]
seen = SharedObserver(spec.view.observation)
seen.reset(spec.scenario)
observed = seen.observe(m)[:, names_of(seen.spec, 3).index("busy neighbours")].tolist()
sys.argv = {golden}
main()
with contextlib.redirect_stdout(io.StringIO()) as tested:
    status = pytest.main({tests})
print(json.dumps({
    "done": done, "controllers": sorted(controllers()), "page": filled("<!-- figures: signals -->", ""),
    "observed": observed, "status": status, "tested": tested.getvalue(),
}))
"""
"""Everything that a user does with the copy, in one process."""


def run(*command: str | Path, cwd: Path) -> str:
    """Run in the copy, with nothing of the installation: -S leaves out the hook that finds this checkout."""
    path = os.pathsep.join([str(cwd), PACKAGES])
    done = subprocess.run(
        list(command), cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def python(*arguments: str, cwd: Path) -> str:
    return run(sys.executable, "-S", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with the additions, and the modules that are built of them, without optimisation."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.so")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, folder / name)
    for path in folder.rglob("*.cmake"):
        path.write_text(path.read_text().replace(" -O3", ""))
    nanobind = run(sys.executable, "-m", "nanobind", "--cmake_dir", cwd=folder).strip()
    run(
        tool("cmake"),
        *("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_CXX_COMPILER={tool('g++')}"),
        *(f"-Dnanobind_DIR={nanobind}", f"-DPython_EXECUTABLE={sys.executable}"),
        *("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"),
        *("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0"),  # each header is read once per module
        *("-S", folder, "-B", folder / "build"),
        cwd=folder,
    )
    for name, text in ADDED.items():
        assert not (folder / name).exists() or name in TAUGHT, (
            "a reader may have followed the tutorial in this checkout"
        )
        (folder / name).write_text(text)
    for name, before, line in [*((name, *lines) for name, lines in MEASURED.items()), *FEATURE]:
        text = (folder / name).read_text()
        assert text.count(before) == 1
        (folder / name).write_text(text.replace(before, line + before))
    run(tool("cmake"), "--build", folder / "build", "--target", *MODULES, cwd=folder)  # no fresh configuration
    for module, where in MODULES.items():
        (built,) = (folder / "build").glob(f"{module}.*.so")
        shutil.copy(built, folder / where)
    return folder


@pytest.fixture(scope="module")
def used(copy: Path) -> dict[str, Any]:
    words, _ = quoted(TUTORIAL, "ncc evaluate controller=aimd")
    golden, _ = quoted(TUTORIAL, GOLDEN)
    held = [f"tests/baselines/test_{name}.py" for name in ("golden", "properties", "headers", "registry")]
    # The copy has no conftest, and a busy machine is no fault.
    tests = ["-q", "--hypothesis-profile=ci", "-p", "no:cacheprovider", "-k", "aimd and not dropped", *held]
    code = USED.replace("{taught}", str(words[1:])).replace("{golden}", str(golden[1:])).replace("{tests}", str(tests))
    said = python("-c", code, cwd=copy)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def test_a_program_of_a_switch_runs_by_its_name(copy: Path, used: dict[str, Any]) -> None:
    status, _, err = used["done"]["ported"]
    assert status == 0, err
    (stored,) = load_evaluation(copy / "p" / "packetsim").runs
    run = stored.load()
    port = run.scenario.network().port("left->right")
    came = int(run.records.flows.sent_pkts.sum() - run.records.ports.dropped_data_pkts[:port].sum())
    assert run.records.ports.dropped_data_pkts[port] == came // 50
    assert not np.isnan(run.records.flows.finish_s).any()


def test_a_measured_column_is_in_results_and_in_the_docs(copy: Path, used: dict[str, Any]) -> None:
    for run in load_evaluation(copy / "o" / "packetsim").runs:
        epochs = run.table("epochs")
        assert epochs.schema.field("mean_wait_s").metadata == {
            b"description": b"mean wait of queued flows; 0 without one"
        }
        wait_s, queued, mean_s = (numpy_column(epochs, name) for name in ("wait_s", "queued_flows", "mean_wait_s"))
        np.testing.assert_allclose(mean_s * queued, wait_s)
        assert mean_s.any()
    assert "| `mean_wait_s` | host | s | mean wait of queued flows | 0 without one | no |" in used["page"]


def test_a_feature_is_a_line_of_yaml_and_a_function(used: dict[str, Any]) -> None:
    np.testing.assert_allclose(used["observed"], [0.2, 0.1, 0.1, 0.2], rtol=1e-6)


def test_the_tutorial_s_controller_does_in_its_scenario_what_the_tutorial_shows(used: dict[str, Any]) -> None:
    _, shown = quoted(TUTORIAL, "ncc evaluate controller=aimd")
    status, out, err = used["done"]["taught"]
    assert status == 0, err
    assert_printed(shown, out)
    status, _, err = used["done"]["compared"]
    assert status == 0, err
    status, _, err = used["done"]["misspelt"]
    assert status != 0
    assert err.replace(", toy_port", "").strip() in [text.strip() for _, text in blocks(TUTORIAL)]


def test_it_is_listed_with_where_it_runs(used: dict[str, Any]) -> None:
    """ns-3 is not built in the copy: it is left out."""
    assert "aimd" in used["controllers"]
    lines = {line.split()[0]: line for line in used["done"]["listed"][1].splitlines()}
    assert re.fullmatch(r" +aimd +\S.* \(packetsim\)", lines["aimd"])
    assert "nowhere built" in lines["ns3_cubic"]


def test_what_tests_every_header_takes_it_in(used: dict[str, Any]) -> None:
    """Golden curves are drawn by a command; the card, the properties and the compilers need nothing."""
    _, shown = quoted(TUTORIAL, GOLDEN)
    assert used["status"] == 0, used["tested"]
    last = used["tested"].splitlines()[-1]
    ran = sum(map(int, re.findall(r"(\d+) (?:passed|skipped)", last)))  # without clang some are skipped
    assert shown.strip() == f"{ran} passed", used["tested"]
