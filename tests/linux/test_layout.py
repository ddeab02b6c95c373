# SPDX-License-Identifier: BSD-3-Clause
"""The rows and constants that Python and C share are equal."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ncc.baselines
import ncc.envs.linux
from ncc.envs.linux import layout, order_program, queue, switch, traffic

FOLDER = Path(ncc.envs.linux.__file__).parent
INCLUDES = [f"-I{path}" for path in (Path(ncc.baselines.__file__).parent, FOLDER / "bpf", FOLDER / "programs")]
STRUCTS = {
    name: (header, row)
    for header, rows in (
        ("intf.h", layout.STRUCTS),
        ("order.h", order_program.STRUCTS),
        ("switch_port.h", switch.STRUCTS),
        ("traffic.h", traffic.STRUCTS),
    )
    for name, row in rows.items()
}
CONSTANTS = {
    "NCC_FLOWS_MAX": layout.FLOWS_MAX, "NCC_HOSTS_MAX": layout.HOSTS_MAX, "NCC_NO_HOST": layout.NO_HOST,
    "NCC_FLOW_FREE": layout.FREE, "NCC_FLOW_LIVE": layout.LIVE, "NCC_FLOW_FINISHED": layout.FINISHED,
    "NCC_ORDER_LEVEL": order_program.SIZE_LEVEL, "NCC_ORDER_SIZE": order_program.SIZE_OPTION,
    "NCC_ORDER_CLASSES": order_program.CLASSES, "NCC_ORDER_FIRST": queue.FIRST, "NCC_ORDER_REST": queue.REST,
    "NCC_ORDER_EARLY": queue.EARLY, "NCC_ORDER_LINK": queue.LINK, "NCC_ORDER_SMALL_BYTES": queue.SMALL_BYTES,
    "NCC_ORDER_OPEN": queue.OPEN, "NCC_ORDER_FIFO": order_program.MODES.index("fifo"),
    "NCC_ORDER_KNOWN": order_program.MODES.index("known"),
    "NCC_SWITCH_PORTS": switch.PORTS_MAX, "NCC_SWITCH_POOLS": switch.POOLS_MAX,
    "NCC_SWITCH_POOL_PORTS": switch.POOL_PORTS_MAX, "NCC_SWITCH_FIRST_INDEX": switch.FIRST_INDEX,
    "NCC_SWITCH_NO_POOL": switch.NO_POOL, "NCC_TRAFFIC_MAGIC": traffic.MAGIC, "NCC_TRAFFIC_PORT": traffic.PORT,
    "NCC_TRAFFIC_DONE": traffic.DONE, "NCC_TRAFFIC_FAILED": traffic.FAILED,
    "NCC_TRAFFIC_OUT_OF_TIME": traffic.OUT_OF_TIME,
}  # fmt: skip


def test_numpy_and_c_agree(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("linux: no C compiler is installed")
    expected = dict(CONSTANTS)
    for struct, (_, row) in STRUCTS.items():
        expected[f"sizeof(struct {struct})"] = row.itemsize
        assert row.fields is not None
        expected |= {f"offsetof(struct {struct}, {name})": field[1] for name, field in row.fields.items()}
    headers = sorted({header for header, _ in STRUCTS.values()})
    source = tmp_path / "rows.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        + "".join(f'#include "{header}"\n' for header in headers)
        + "int main(void) {\n"
        + "".join(f'printf("{what} = %llu\\n", (unsigned long long)({what}));\n' for what in expected)
        + "}\n"
    )
    subprocess.run([compiler, "-Wall", "-Werror", *INCLUDES, source, "-o", tmp_path / "rows"], check=True)
    said = subprocess.run([tmp_path / "rows"], check=True, capture_output=True, text=True).stdout
    assert dict(line.split(" = ") for line in said.splitlines()) == {what: str(n) for what, n in expected.items()}


@pytest.mark.parametrize("struct", sorted(STRUCTS))
def test_rows_leave_no_gaps(struct: str) -> None:
    row: np.dtype[np.void] = STRUCTS[struct][1]
    assert row.fields is not None
    assert sum(field[0].itemsize for field in row.fields.values()) == row.itemsize


def test_the_numbers_of_a_switch_are_those_of_the_headers() -> None:
    from tests.baselines import ports as headers

    assert switch.ALPHA_ONE == headers.DT_ALPHA_ONE
    assert switch.PROBABILITY_ONE == headers.RED_ONE
