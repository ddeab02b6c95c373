# SPDX-License-Identifier: BSD-3-Clause
"""The rows that kernel and user space share are the same to both."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ncc.baselines
import ncc.envs.linux
from ncc.envs.linux import layout, objects
from ncc.envs.linux.libbpf import Object
from tests.support.linux import needs

INCLUDES = [f"-I{Path(ncc.baselines.__file__).parent}", f"-I{Path(ncc.envs.linux.__file__).parent / 'bpf'}"]
SHIM_STRUCTS = ("ncc_params", "ncc_report", "ncc_decision", "ncc_host", "ncc_agent")


def offsets(row: np.dtype[np.void]) -> dict[str, int]:
    assert row.fields is not None
    return {name: row.fields[name][1] for name in row.names or ()}


def from_c(struct: str, tmp_path: Path) -> tuple[int, dict[str, int]]:
    """Size and offsets of the fields that numpy names, by the C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("linux: no C compiler is installed")
    lines = [f'printf("{n} %zu\\n", offsetof(struct {struct}, {n}));' for n in layout.STRUCTS[struct].names or ()]
    source = tmp_path / "rows.c"
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "intf.h"\n'
        f'int main(void) {{ printf("%zu\\n", sizeof(struct {struct})); {" ".join(lines)} }}\n'
    )
    subprocess.run([compiler, "-Wall", "-Werror", *INCLUDES, source, "-o", tmp_path / "rows"], check=True)
    size, *rows = subprocess.run([tmp_path / "rows"], check=True, capture_output=True, text=True).stdout.splitlines()
    return int(size), {name: int(offset) for name, offset in (row.split() for row in rows)}


@pytest.mark.parametrize("struct", sorted(layout.STRUCTS))
def test_numpy_and_c_agree(struct: str, tmp_path: Path) -> None:
    row = layout.STRUCTS[struct]
    assert from_c(struct, tmp_path) == (row.itemsize, offsets(row))


@pytest.mark.parametrize("struct", sorted(layout.STRUCTS))
def test_rows_leave_no_gaps(struct: str) -> None:
    row = layout.STRUCTS[struct]
    assert row.fields is not None
    assert sum(field[0].itemsize for field in row.fields.values()) == row.itemsize


def test_constants_agree(tmp_path: Path) -> None:
    text = (Path(ncc.envs.linux.__file__).parent / "bpf" / "intf.h").read_text()
    defined = dict(
        line.split()[1:3] for line in text.splitlines() if line.startswith("#define NCC_") and " " in line[8:]
    )
    assert int(defined["NCC_FLOWS_MAX"]) == layout.FLOWS_MAX
    assert int(defined["NCC_HOSTS_MAX"]) == layout.HOSTS_MAX
    assert int(defined["NCC_NO_HOST"].rstrip("u"), 16) == layout.NO_HOST
    assert int(defined["NCC_WEIGHT_MAX"].rstrip("u")) == layout.WEIGHT_MAX
    assert int(defined["NCC_CLAIM_ONE"]) == layout.CLAIM_ONE
    states = [f"NCC_FLOW_{name} = {value}" for name, value in (("FREE", 0), ("LIVE", 1), ("FINISHED", 2))]
    assert all(state in text for state in states)
    assert (layout.FREE, layout.LIVE, layout.FINISHED) == (0, 1, 2)


@needs("objects")
@pytest.mark.parametrize("controller", objects.controllers())
def test_the_built_programs_agree(controller: str) -> None:
    with Object(objects.controller_object(controller)) as opened:
        for struct in SHIM_STRUCTS:
            row = layout.STRUCTS[struct]
            assert opened.fields(struct) == (row.itemsize, offsets(row))
