# SPDX-License-Identifier: BSD-3-Clause
"""That the benchmark measures something and judges it rightly; never how fast anything is."""

import subprocess
import sys

import pytest

from ncc.bench import Bench, Row, table
from tests.envs.cases import poisson, rack, spec


def test_every_row_is_measured() -> None:
    scenario = rack(poisson(), hosts=2, periods=60)
    rows = Bench(spec=spec(scenario), epochs=5, repeats=2).rows()
    assert len(rows) == 5
    for row in rows:
        assert len(row.values) == 2
        assert all(value > 0 for value in row.values)
    assert table(rows).row_count == 5


@pytest.mark.parametrize(
    ("values", "verdict"), [((49.0, 51.0, 40.0), "met"), ((49.0, 51.0, 52.0), "missed"), ((50.0,), "met")]
)
def test_the_median_is_held_against_the_target(values: tuple[float, ...], verdict: str) -> None:
    assert Row("a", values, "us", at_most=50).cells()[3:] == ("<= 50", verdict)
    assert Row("a", tuple(-value for value in values), "x", at_least=-50).cells()[3:] == (">= -50", verdict)


def test_a_figure_without_a_target_is_not_judged() -> None:
    assert Row("a", (1.0, 2.0, 4.0), "ms").cells() == ("a", "2 ms", "1 to 4", "", "")


def test_without_the_extension_it_says_what_to_do() -> None:
    code = (
        "import sys; sys.modules['ncc.envs.ns3._ns3'] = None\nfrom ncc.bench import main\nsys.exit(main(['--quick']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make build" in done.stdout
    assert "Traceback" not in done.stderr
