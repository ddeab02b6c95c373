# SPDX-License-Identifier: BSD-3-Clause
"""Faults are tests: the report runs them and takes over what they measured (pytest's `record_property`).

Tests of real traffic have several tries (tests/linux/conftest.py): a row says what became of the last and how many
there were.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ncc.core.errors import ConfigError, DatapathError
from ncc.host.runs import Preset, watched

FILES = ("tests/linux/test_faults.py", "tests/linux/test_shim_faults.py")
MEASURED = "measured"
"""Property of a test: a sentence with figures. Tests without it are not shown."""
LONGEST_S = 400


def faults(_: Preset) -> dict[str, Any]:
    """One row per test that says what it measured.

    Raises:
        ConfigError: there are no tests here.
        DatapathError: pytest left no result.
    """
    if missing := [name for name in FILES if not Path(name).is_file()]:
        raise ConfigError(f"{missing[0]} is not here: run the report in the root of a checkout")
    with tempfile.TemporaryDirectory() as folder, watched() as load:
        result = Path(folder) / "faults.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-o", "junit_family=xunit1", f"--junitxml={result}", *FILES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
        if not result.is_file():
            raise DatapathError(f"The tests of faults left no result: {(done.stdout + done.stderr).strip()[-300:]}")
        found = _rows(ElementTree.parse(result).getroot())
    return {"rows": found, "load": load}


def _rows(root: ElementTree.Element) -> list[dict[str, Any]]:
    """One row per test: every try is an element of its own, and those before the last say nothing of their failure."""
    tries: dict[str, list[dict[str, Any]]] = {}
    for case in root.iter("testcase"):
        row = _row(case)
        tries.setdefault(row["test"], []).append(row)
    return [{**rows[-1], "tries": len(rows)} for rows in tries.values()]


def _row(case: ElementTree.Element) -> dict[str, Any]:
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    outcome = next((tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None), "passed")
    found = case.find(outcome)
    return {
        "test": f"{case.get('file') or str(case.get('classname')).replace('.', '/') + '.py'}::{case.get('name')}",
        "outcome": outcome,
        "measured": properties.get(MEASURED),
        "why": (found.get("message") or "").splitlines()[0][:200] if found is not None else "",
    }
