# SPDX-License-Identifier: BSD-3-Clause
"""The sentence that begins and ends a comparison, and the table between: what fits 80 columns and a screen."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ncc.metrics.catalogue import CATALOGUE, HEADLINE
from ncc.results.comparison import Comparison, comparison
from ncc.results.judgement import Judgement
from ncc.results.report.page import reference_of
from ncc.results.table import markdown, sentences
from ncc.results.verdict import opponent, verdicts
from tests.results.made import printed, summary

START = (0.010, 0.020, 0.030, 0.040, 0.050)
BUSY = (0.8, 1.1, 0.9, 1.2, 1.0)
"""Factors that are as often above 1 as below."""


def compared(
    fct: Mapping[str, tuple[float, ...]], goodput: Mapping[str, float] | None = None, **about: object
) -> Comparison:
    """Mean FCT as factors of `START`, and goodput in Gbit/s."""
    runs = {
        name: [
            summary(fct_mean_s=v * factor, goodput_bps=1e9 * (goodput or {}).get(name, 1.0))
            for v, factor in zip(START, factors, strict=False)
        ]
        for name, factors in fct.items()
    }
    n = len(next(iter(fct.values())))
    return comparison(runs, range(n), scenario="rack", n_flows=9, duration_s=0.2, **about)  # type: ignore[arg-type]


SAME = (1.0,) * 5


@pytest.mark.parametrize(
    ("factor", "goodput", "said"),
    [
        (0.77, 0.97, "NCC finishes flows 23 % sooner than DCTCP [23, 23]; goodput 3 % lower [3, 3]."),
        (1.12, 1.0, "NCC finishes flows 12 % later than DCTCP [12, 12]; goodput equal (0 % [0, 0])."),
        (9.7, 1.5, "NCC finishes flows 870 % later than DCTCP [870, 870]; goodput 50 % higher [50, 50]."),
        (0.996, 1.0, "NCC finishes flows 0.4 % sooner than DCTCP [0.4, 0.4]; goodput equal (0 % [0, 0])."),
    ],
)
def test_a_win_and_a_loss_are_said_in_the_same_words(factor: float, goodput: float, said: str) -> None:
    found = compared({"dctcp": SAME, "ncc": (factor,) * 5}, {"ncc": goodput}, learned=("ncc",))
    assert verdicts(found) == (said,)


def test_what_cannot_be_told_apart_is_equal() -> None:
    """The sentence says who is ahead on average, and that it may be chance."""
    (said,) = verdicts(compared({"ncc": BUSY, "dctcp": SAME}, learned=("ncc",)))
    assert re.match(
        r"NCC and DCTCP finish flows equally soon \(NCC 3 % later on average, but the interval \[.\d+, \d", said
    )
    assert "] includes 0); " in said
    (said,) = verdicts(compared({"ncc": SAME, "dctcp": BUSY}, learned=("ncc",)))
    assert "(NCC 3 % sooner on average, but the interval [" in said
    (said,) = verdicts(compared({"ncc": SAME, "dctcp": SAME}, learned=("ncc",)))
    assert said == "NCC and DCTCP finish flows equally soon (0 % [0, 0]); goodput equal (0 % [0, 0])."


def test_few_seeds_tell_nothing() -> None:
    (said,) = verdicts(compared({"ncc": (0.1,) * 4, "dctcp": SAME[:4]}))
    assert said == "NCC against DCTCP: nothing can be concluded from 4 seeds; take at least 5."


def test_whom_it_is_about_and_against() -> None:
    found = compared(
        {"dctcp": SAME, "cubic": (0.9,) * 5, "bbr": (0.8,) * 5, "mine": (0.7,) * 5},
        learned=("mine",),
        classical=("dctcp", "cubic", "bbr"),
    )
    assert [said.split()[0] for said in verdicts(found)] == ["mine"]
    assert opponent(found, "mine") == "dctcp"
    assert opponent(found, "dctcp") == "bbr", "the fastest"
    oracle = compared({"mine": SAME, "cubic": SAME, "max_min": (0.1,) * 5}, classical=("cubic",))
    assert opponent(oracle, "mine") == "cubic", "an oracle is no classical controller"
    assert [said.split()[0] for said in verdicts(oracle)] == ["CUBIC"], "classical, where nobody learned"
    for order in (("vegas", "cubic", "dctcp"), ("dctcp", "cubic", "vegas")):  # whoever is named first
        classical = compared({"dctcp": SAME, "cubic": (0.9,) * 5, "vegas": (1.1,) * 5}, classical=order)
        assert [said.split()[0] for said in verdicts(classical)] == ["CUBIC"]
    classical = compared(
        {"dctcp": SAME, "cubic": (0.9,) * 5, "vegas": (1.1,) * 5}, classical=("dctcp", "cubic", "vegas")
    )
    against_cubic = replace(found, reference="cubic")
    assert opponent(against_cubic, "mine") == "cubic"
    assert "than CUBIC" in verdicts(against_cubic)[0]
    assert reference_of(against_cubic) == "cubic"
    assert "DCTCP finishes flows 11 % later than CUBIC" in verdicts(replace(classical, reference="cubic"))[0]
    assert "CUBIC finishes flows 10 % sooner than DCTCP" in verdicts(replace(classical, reference="dctcp"))[0]
    several = compared(dict.fromkeys(("dctcp", "a", "b", "c", "d"), SAME), learned=("a", "b", "c", "d"))
    assert [said.split()[0] for said in verdicts(several)] == ["a", "b", "c", "d"]
    assert verdicts(compared({"ncc": SAME})) == ("NCC was run alone; name a second controller to compare it with.",)


def test_an_invalid_run_wins_nothing() -> None:
    fct = {"ncc": (0.5,) * 5, "dctcp": SAME}
    (said,) = verdicts(compared(fct, invalid={"ncc": {2: ["lost"]}}))
    assert said.startswith(
        "NCC does not beat DCTCP: 1 of NCC's 5 runs are invalid (as they ended: NCC finishes flows 50"
    )
    (said,) = verdicts(compared(fct, invalid={"dctcp": {2: ["lost"]}}))
    assert said.startswith("NCC finishes flows 50 % sooner than DCTCP [50, 50]; ")
    assert said.endswith("; 1 of DCTCP's 5 runs are invalid.")


def test_runs_that_are_all_invalid_conclude_nothing() -> None:
    lost = {seed: ["lost"] for seed in range(5)}
    (said,) = verdicts(compared({"ncc": (0.5,) * 5, "dctcp": SAME}, invalid={"ncc": lost, "dctcp": lost}))
    assert said == "NCC against DCTCP: nothing can be concluded, because all runs of both are invalid."


def test_a_win_says_what_it_costs() -> None:
    ours = [summary(fct_mean_s=0.5, jain=0.9 + seed / 1000, fct_p99_s=2.0 + seed) for seed in range(5)]
    theirs = [summary(fct_mean_s=1.0, jain=0.95 + seed / 1000, fct_p99_s=2.0 + 4 * (seed % 2)) for seed in range(5)]
    (said,) = verdicts(comparison({"ncc": ours, "dctcp": theirs}, range(5)))
    assert said.endswith("; worse: Jain index 0.902 for 0.952."), "and of a p99 that chance explains nothing is said"


def test_differences_are_shown_from_the_opponent_of_the_verdict() -> None:
    """`ncc report` and the verdict name the same one, wherever it stands in the list."""
    fct_s = {"ncc": 1.0, "dctcp_tuned": 2.0, "cubic": 3.0}
    found = comparison({name: [summary(fct_mean_s=value)] * 5 for name, value in fct_s.items()}, range(5))
    assert "than tuned DCTCP" in verdicts(found)[0]
    assert reference_of(found) == "dctcp_tuned"
    with_dctcp = comparison({name: [summary(fct_mean_s=2.0)] * 5 for name in ("cubic", "dctcp")}, range(5))
    assert reference_of(with_dctcp) == "dctcp"
    assert reference_of(comparison({"ncc": [summary(fct_mean_s=1.0)] * 5}, range(5))) == "ncc"


def test_without_completion_times_goodput_speaks() -> None:
    found = comparison({"ncc": [summary(goodput_bps=0.9e9)] * 5, "dctcp": [summary(goodput_bps=1e9)] * 5}, range(5))
    assert verdicts(found) == ("NCC against DCTCP: goodput 10 % lower [10, 10].",)


def test_requests_are_judged_by_their_time_and_flows_are_not() -> None:
    """NCC's flows take twice as long and its requests half as long; CUBIC has the fastest flows."""
    of = {"ncc": (2.0, 0.5), "dctcp": (1.0, 1.0), "cubic": (0.5, 1.5)}
    runs = {
        name: [summary(fct_mean_s=flow * start, qct_mean_s=request * start, goodput_bps=1e9) for start in START]
        for name, (flow, request) in of.items()
    }
    (said,) = verdicts(comparison(runs, range(5), learned=("ncc",)))
    assert said.startswith("NCC finishes requests 50 % sooner than DCTCP [50, 50]; goodput equal")
    assert "worse: FCT, mean (ms) 60.000 for 30.000" in said
    (said,) = verdicts(comparison({name: runs[name] for name in ("dctcp", "cubic")}, range(5)))
    assert said.startswith("DCTCP finishes requests 33 % sooner than CUBIC")


def full(names: tuple[str, ...], **about: object) -> Comparison:
    """Every metric of the headline, different for everybody."""
    runs = {
        name: [summary(**dict.fromkeys(HEADLINE, 1.2345 * (i + 1) * (seed + 1) / 1000.0)) for seed in range(5)]
        for i, name in enumerate(names)
    }
    return comparison(runs, range(5), scenario="rack", n_flows=9999, duration_s=0.2, **about)  # type: ignore[arg-type]


def lines_of(judgement: Judgement, width: int | None, *, full: bool = False) -> list[str]:
    return printed(judgement, width, full=full).splitlines()


FOUR = ("ncc", "cubic", "bbr", "dctcp")


@pytest.mark.parametrize("width", [80, 120, 200, None])
def test_four_controllers_fit_a_screen(width: int | None) -> None:
    lines = lines_of(Judgement({"packetsim": full(FOUR), "ns3": full(FOUR)}), width)
    verdict, text = sentences(Judgement({"ns3": full(FOUR)}))[0][0], " ".join(" ".join(lines).split())
    assert text.startswith(verdict)
    assert text.endswith(verdict)
    assert max(map(len, lines)) <= (width or 120)
    assert len(lines) <= 24
    assert "rack on packetsim and ns3: 5 seeds of 0.2 s, 9,999 flows per controller" in lines
    assert "packetsim and ns3 agree to the digits shown." in lines
    (head,) = (line for line in lines if "NCC" in line and "BBR" in line)
    assert head.split() == ["NCC", "CUBIC", "BBR", "DCTCP"], "a column each, not one per datapath"
    shown = [CATALOGUE[key].short or CATALOGUE[key].title for key in HEADLINE]
    assert [name for line in lines for name in shown if line.startswith(name)] == shown, "each metric once, in order"


def test_eight_controllers_lose_their_intervals_first() -> None:
    eight = Judgement({"ns3": full((*tuple(f"controller_{i}" for i in range(7)), "dctcp"))})
    assert any("±" in line for line in lines_of(eight, 200))
    for width in (120, 80):
        lines = lines_of(eight, width)
        assert max(map(len, lines)) <= width
        assert not any("±" in line for line in lines)
        for i in range(7):
            assert any(f"controller_{i}" in line for line in lines)


def test_datapaths_that_differ_are_shown_apart() -> None:
    slower = full(FOUR)
    for values in slower.values.values():
        values["fct_mean_s"][:] = [2 * v for v in values["fct_mean_s"]]
    lines = lines_of(Judgement({"packetsim": slower, "ns3": full(FOUR)}), 80)
    at = next(i for i, line in enumerate(lines) if line.startswith("FCT, mean"))
    assert "packetsim" in lines[at]
    assert lines[at + 1].split()[0] == "ns3"
    assert not any("packetsim" in line or "ns3" in line for line in lines[at + 2 : at + 8])
    assert "packetsim and ns3 agree to the digits shown where no datapath is named." in lines


def test_fairness_is_shown_where_it_tells_somebody_apart() -> None:
    fair = full(FOUR)
    for values in fair.values.values():
        values["jain"][:] = [1.0] * 5
    assert not any(line.startswith("Jain") for line in lines_of(Judgement({"ns3": fair}), 80))
    assert any(line.startswith("Jain") for line in lines_of(Judgement({"ns3": full(FOUR)}), 80))


def test_warnings_stand_at_the_head_and_below() -> None:
    found = full(FOUR, warnings={"ncc": ("outside its training: uplink over host rate 0.5, trained 1 to 6",)})
    judgement = Judgement({"ns3": found})
    for lines in (lines_of(judgement, 80), lines_of(judgement, None, full=True), markdown(judgement).splitlines()):
        assert any("NCC †" in line and "DCTCP" in line for line in lines)
        text = " ".join(line.strip() for line in lines)
        assert "† NCC: outside its training: uplink over host rate 0.5, trained 1 to 6." in text


def test_invalid_runs_are_a_line_for_each_controller() -> None:
    lost = {"ncc": {0: ["lost"], 3: ["stuck", "lost"]}, "dctcp": {2: ["slow"]}}
    both = Judgement({"packetsim": full(FOUR, invalid=lost), "ns3": full(FOUR, invalid=lost)})
    assert [line.strip() for line in markdown(both).splitlines() if "never best:" in line] == [
        "INVALID, counted as it ended and never best: 4 of NCC's 10 runs, the first on packetsim, seed 0: lost",
        "INVALID, counted as it ended and never best: 2 of DCTCP's 10 runs, the first on packetsim, seed 2: slow",
    ]


def test_more_than_one_datapath_may_say_something_else() -> None:
    ours, theirs = compared({"ncc": (0.5,) * 5, "dctcp": SAME}), compared({"ncc": (0.8,) * 5, "dctcp": SAME})
    said, others = sentences(Judgement({"packetsim": ours, "ns3": theirs}))
    assert not others
    assert said[0].startswith("On ns3: NCC finishes flows 20 % sooner")
    assert said[1].startswith("On packetsim: NCC finishes flows 50 % sooner")
