# SPDX-License-Identifier: BSD-3-Clause
"""The same controllers on several datapaths: one table."""

import pytest

from ncc.core.errors import ConfigError
from ncc.results.comparison import Comparison, comparison
from ncc.results.judgement import Judgement
from ncc.results.table import differences, markdown
from tests.results.made import printed, summary

SEEDS = (0, 1, 2, 3, 4)


def compared(scale: float = 1.0, goodput: float = 1.0, *, invalid: int | None = None) -> Comparison:
    """NCC's mean slowdown is 1 to 5 and DCTCP's always 4, times `scale`."""
    runs = {
        "ncc": [_summary((1.0 + seed) * scale, goodput) for seed in SEEDS],
        "dctcp": [_summary(4.0 * scale, goodput) for _ in SEEDS],
    }
    return comparison(runs, SEEDS, scenario="rack", n_flows=90, invalid={"ncc": {invalid: ["lost"]}} if invalid else {})


def _summary(slowdown: float, goodput: float) -> dict[str, float]:
    return summary(slowdown_all_mean=slowdown, goodput_bps=goodput * 1e9)


def test_an_invalid_run_is_said() -> None:
    judgement = Judgement({"packetsim": compared(2.0, invalid=4), "ns3": compared()})
    assert judgement.judged_by == "ns3"
    assert "INVALID 1 of 10" in printed(judgement)


def test_both_datapaths_stand_in_one_table() -> None:
    lines = printed(Judgement({"packetsim": compared(2.0), "ns3": compared()})).splitlines()
    assert "rack on packetsim and ns3: 5 seeds, 90 flows per controller" in lines
    first = next(i for i, line in enumerate(lines) if line.strip().startswith("mean"))
    assert lines[first].split()[:3] == ["mean", "packetsim", "6.00"]
    assert lines[first + 1].split()[:2] == ["ns3", "3.00"]


def test_a_difference_that_rounds_to_none_has_no_sign() -> None:
    def shown(*less: float) -> tuple[str, str]:
        runs = {"ncc": [_summary(2.0 + x, 1.0) for x in less], "dctcp": [_summary(2.0, 1.0) for _ in less]}
        grid = differences(Judgement({"ns3": comparison(runs, SEEDS)}), "dctcp")
        (row,) = [row for row in grid.rows if row.title.startswith("FCT slowdown, all flows, mean")]
        return row.cells[0].middle, row.cells[0].spread

    assert shown(0.0, 0.0, 0.001, 0.002, 0.004) == ("0.00", "[0.00, 0.00]")
    assert shown(0.0, 0.0, -0.001, -0.002, -0.004) == ("0.00", "[0.00, 0.00]")
    assert shown(*[0.02] * 4, 0.021) == ("+0.02", "[+0.02, +0.02]")
    assert shown(*[-0.02] * 4, -0.021) == ("\N{MINUS SIGN}0.02", "[\N{MINUS SIGN}0.02, \N{MINUS SIGN}0.02]")


def test_the_best_is_judged_within_a_datapath() -> None:
    worse = comparison(
        {"ncc": [_summary(9.0, 1.0)] * 5, "dctcp": [_summary(4.0, 1.0)] * 5}, SEEDS, scenario="rack", n_flows=90
    )
    lines = markdown(Judgement({"packetsim": worse, "ns3": compared()})).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| FCT slowdown, all flows, mean | packetsim"))
    assert lines[start] == "| FCT slowdown, all flows, mean | packetsim | 9.00 | **4.00** |"
    assert lines[start + 1].startswith("|  | ns3 | 3.00 ["), "NCC's 3.00 [1.8, 4.2] is not told from DCTCP's 4.00"


def test_one_datapath_has_no_column() -> None:
    assert "|  | NCC | DCTCP |" in markdown(Judgement({"ns3": compared()}))


def test_datapaths_with_other_runs_are_no_pairs() -> None:
    other = comparison({"ncc": [_summary(1, 1)] * 5}, SEEDS, scenario="rack", n_flows=90)
    with pytest.raises(ConfigError, match="packetsim, ns3 must have run the same scenario, controllers and seeds"):
        Judgement({"packetsim": other, "ns3": compared()})
    with pytest.raises(ConfigError, match="at least one datapath"):
        Judgement({})
