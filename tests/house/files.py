# SPDX-License-Identifier: BSD-3-Clause
"""The files that belong to the repository."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked() -> tuple[str, ...]:
    """Paths of all tracked files that exist, links included, relative to the root; fails outside a git checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(path for path in listed.split("\0") if path and (ROOT / path).exists())


@cache
def texts() -> dict[str, str]:
    """Contents of the tracked files that are text."""
    found = {}
    for path in tracked():
        full = ROOT / path
        if full.is_file() and full.suffix not in {".png", ".parquet", ".ncc"}:
            found[path] = full.read_text(encoding="utf-8")
    return found
