# SPDX-License-Identifier: BSD-3-Clause
"""Controllers on drawn networks: the same flows for all, and the numbers that are printed."""

import logging

import numpy as np
import pytest

from ncc.core.errors import UnknownNameError
from studies.random_networks import Outcomes, drawn, lines, load_families, main


@pytest.fixture(autouse=True)
def _warnings_as_before(caplog: pytest.LogCaptureFixture) -> None:
    """The command silences those of invalid runs."""
    caplog.set_level(logging.NOTSET, "ncc.harness.run")


def test_equal_seeds_draw_equal_networks_and_others_others() -> None:
    families = load_families("mixture", ["uplink"], epochs=50)
    one, again, other = (drawn(families, seed, 4, 2.0) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert {each.name for each in one} == {"uplink"}
    assert one[0].drain_s == pytest.approx(2 * 50 * one[0].period_s)


def test_the_table_by_hand() -> None:
    nothing = np.zeros(4)
    base = Outcomes(np.ones(4), np.ones(4), nothing, nothing)
    met = Outcomes(np.ones(4), np.array([0.5, 2.0, 1.0, 1.1]), np.array([0, 0, 0, 0.4]), np.array([0, 1, 0, 0]))
    row = lines("one", "other", met, base, {"all": np.arange(4)})[0].split()
    assert row[:5] == ["one", "other", "all", "4", "1.024"]  # (0.5 x 2 x 1 x 1.1) ** (1 / 4)
    assert row[7:] == ["1.049", "2.000", "50.0%", "25.0%", "0.1000", "1"]


def test_equal_seeds_print_equal_tables(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["local", "--networks", "2", "--epochs", "20", "--drain", "2"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1].startswith("local")
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed


def test_unknown_families_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownNameError, match="family"):
        load_families("mixture", ["uplynk"])
    assert main(["local", "--networks", "0"]) == 2
    assert "networks must be a whole number from 1" in capsys.readouterr().err
    assert main(["local", "--families", "nope"]) == 2
    assert "Unknown families 'nope'; known: incast_cell, mixture, wide" in capsys.readouterr().err
    assert main(["dctcp"]) == 2
    assert "dctcp would be compared with itself" in capsys.readouterr().err


def test_networks_in_which_a_policy_decides_have_rows_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    drawing = ["--epochs", "20", "--drain", "2", "--seed", "2"]
    assert main(["ncc", "local", "--families", "wide", "--networks", "30", *drawing]) == 0
    printed = capsys.readouterr().out
    assert "of 30 networks have no flow and are left out" in printed
    for name in ("ncc", "local"):
        rows = [line.split() for line in printed.splitlines() if line.startswith(name)]
        everywhere = next(int(row[3]) for row in rows if row[2] == "all")
        decided = next(int(row[4]) for row in rows if row[2:4] == ["ncc", "decides"])
        assert 0 < decided < everywhere < 30
    assert main(["ncc", "--of", "uplink", "--networks", "2", *drawing]) == 0
    assert "ncc decides in none of these networks" in capsys.readouterr().out
