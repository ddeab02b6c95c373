# SPDX-License-Identifier: BSD-3-Clause
"""A wheel in a new environment without extras, outside the checkout: its size, its page, and the tests that apply.

``python -m tests.wheel dist/neighbour_cc-*.whl [argument of pytest ...]``. What installs is pip, from where it installs
here.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from urllib.parse import unquote

from ncc.study.play import PAGE
from tests.house.files import ROOT

TESTS = ("core", "metrics", "harness", "packetsim", "envs", "agents", "policies", "report", "mains/test_extras.py")
"""Folders of tests/ that need nothing of a checkout but themselves. A test that needs an extra skips by its name."""
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "scipy", "networkx")
MOST_MB = 400
"""Installed, without pip and what the tests need."""


def installed_mb(environment: Path) -> float:
    """Size of the files of all packages but pip's."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence.pth")
    files = (file for top in packages.iterdir() if not top.name.startswith(own) for file in (top, *top.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def page_is_right(python: Path, folder: Path) -> bool:
    """True if `ncc play` opens the page of the checkout, or says how to build one where the checkout has none."""
    command: list[str | Path] = [python.with_name("ncc"), "play"]
    silent = {**os.environ, "BROWSER": "true"}  # a browser that does nothing
    done = subprocess.run(command, cwd=folder, env=silent, capture_output=True, text=True, check=False)
    sys.stdout.write(f"ncc play: {(done.stdout or done.stderr).strip()}\n")
    if not PAGE.is_file():
        return done.returncode == 2 and "make play" in done.stderr
    opened = Path(unquote(done.stdout.strip().removeprefix("file://")))
    return opened != PAGE and opened.is_file() and opened.read_bytes() == PAGE.read_bytes()


def main(wheel: Path, arguments: list[str]) -> int:
    """Install, measure, test; pytest's status, or 1 for an installation that is too large or has a wrong page."""
    with tempfile.TemporaryDirectory(prefix="ncc-wheel-") as made:
        folder = Path(made)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        pip += ["-c", ROOT / "constraints.txt"]
        subprocess.run([*pip, wheel.resolve()], check=True)
        size_mb = installed_mb(folder / "venv")
        sys.stdout.write(f"{wheel.name}: {size_mb:.0f} MB installed, without extras\n")
        sys.stdout.flush()
        subprocess.run([python.with_name("ncc"), "--version"], cwd=folder, check=True)
        page = page_is_right(python, folder)
        subprocess.run([*pip, *TOOLS], check=True)
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        tests = [f"tests/{name}" for name in TESTS]
        pytest = [str(python), "-m", "pytest", "-p", "no:cacheprovider"]
        command = [*pytest, "-m", "not rllib and not checkout", *arguments, *tests]
        status = subprocess.run(command, cwd=folder, check=False).returncode
    return status or int(size_mb > MOST_MB or not page)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
