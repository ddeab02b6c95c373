# SPDX-License-Identifier: BSD-3-Clause
"""Notebooks are kept without what running them leaves, and run by any Python that has ncc."""

import json
from typing import Any

import pytest

from tests.house.files import texts

NOTEBOOKS = sorted(path for path in texts() if path.endswith(".ipynb"))


def cells(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(texts()[path])["cells"]
    return found


def test_they_are_in_their_folder() -> None:
    assert len(NOTEBOOKS) == 8
    assert all(path.startswith("notebooks/") for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_nothing_of_a_run_is_in_it(path: str) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert not [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"] is not None]
    assert not [cell["id"] for cell in cells(path) if cell["metadata"] or cell.get("attachments")]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_it_names_no_machine_s_kernel(path: str) -> None:
    metadata = json.loads(texts()[path])["metadata"]
    assert metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_it_is_short_and_begins_with_what_can_be_changed(path: str) -> None:
    found = cells(path)
    assert 6 <= sum(cell["cell_type"] == "code" for cell in found) <= 12
    assert found[0]["cell_type"] == "markdown"
    first = "".join(next(cell["source"] for cell in found if cell["cell_type"] == "code"))
    assert "= None" in first
    assert not [
        cell["id"] for cell in found if cell["cell_type"] == "code" and "import matplotlib" in "".join(cell["source"])
    ]
