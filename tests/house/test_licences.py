# SPDX-License-Identifier: BSD-3-Clause
"""Every file says its licence, and the right one for its place; the texts are there."""

import json
import re

from tests.house.files import ROOT, texts

BSD, GPL = "BSD-3-Clause", "GPL-2.0-only"
GPL_FOLDERS = ("envs/ns3/", "envs/linux/bpf/")
"""Code that links ns-3, and code that loads into the kernel."""
SILENT = {".json", ".csv", ".typed"}
"""Formats that hold no comments; they go by the licence of ncc, BSD-3-Clause."""
SPDX = re.compile(r"SPDX-License-Identifier: (\S+)")


def expected(path: str) -> str:
    return GPL if path.startswith(GPL_FOLDERS) else BSD


SPEAKING = sorted(
    path for path in texts() if not path.startswith("LICENSES/") and not any(path.endswith(end) for end in SILENT)
)


def test_the_first_lines_name_the_licence() -> None:
    wrong = {}
    for path in SPEAKING:
        text = texts()[path]
        if path.endswith(".ipynb"):
            text = "".join(json.loads(text)["cells"][0]["source"])
        named = SPDX.findall("\n".join(text.splitlines()[:2]))
        if named != [expected(path)]:
            wrong[path] = named
    assert not wrong


def test_silent_formats_are_not_gpl() -> None:
    assert not [path for path in texts() if path not in SPEAKING and path.startswith(GPL_FOLDERS)]


def test_the_texts_are_there() -> None:
    bsd = (ROOT / "LICENSES" / f"{BSD}.txt").read_text()
    assert "The ncc authors" in bsd
    assert "Neither the name of the copyright holder" in bsd
    gpl = (ROOT / "LICENSES" / f"{GPL}.txt").read_text()
    assert "GNU GENERAL PUBLIC LICENSE" in gpl
    assert "Version 2, June 1991" in gpl
    assert {path.name for path in (ROOT / "LICENSES").iterdir()} == {f"{BSD}.txt", f"{GPL}.txt"}


def test_the_package_declares_both() -> None:
    assert f'license = "{BSD} AND {GPL}"' in texts()["pyproject.toml"]
