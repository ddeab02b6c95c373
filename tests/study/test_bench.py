# SPDX-License-Identifier: BSD-3-Clause
"""Every group of the benchmark runs, and is judged rightly; no test asks how fast anything is."""

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from ncc.bench import main
from ncc.core.errors import ConfigError
from ncc.study import bench
from ncc.study.bench import GROUPS, Row, in_turn, measured, over, packetsim, stepping, table
from tests.house.files import ROOT
from tests.support.extras import lacking

PRESETS = ("short", "full")
HEADERS = ("dctcp", "ecnqueue", "eventlist", "network", "pipe", "queue", "tcp")
HTSIM = """
#pragma once
#include <cstdint>
#include <string>
#include <vector>
typedef uint64_t linkspeed_bps;
typedef uint64_t simtime_picosec;
typedef int64_t mem_b;
inline simtime_picosec timeFromSec(double s) { return s * 1e12; }
inline simtime_picosec timeFromMs(double ms) { return ms * 1e9; }
inline simtime_picosec timeFromUs(uint32_t us) { return us * 1000000ull; }
struct EventList;
struct EventSource {
    EventSource(EventList &events, const std::string &) : events_(events) {}
    virtual void doNextEvent() = 0;
    EventList &eventlist() { return events_; }
    EventList &events_;
};
struct PacketSink {};
struct TcpSink : PacketSink { uint64_t _cumulative_ack = 0; };
struct EventList {
    static EventSource *&next() { static EventSource *source; return source; }
    static std::vector<TcpSink *> &sinks() { static std::vector<TcpSink *> all; return all; }
    static void setEndtime(simtime_picosec) {}
    static void sourceIsPendingRel(EventSource &source, simtime_picosec) { next() = &source; }
    static bool doNextEvent()
    {
        for (TcpSink *sink : sinks())
            sink->_cumulative_ack += 1000;
        next()->doNextEvent();
        return true;
    }
};
struct Packet { static void set_packet_size(int) {} };
struct Queue : PacketSink { Queue(linkspeed_bps, mem_b, EventList &, void *) {} };
struct ECNQueue : PacketSink { ECNQueue(linkspeed_bps, mem_b, EventList &, void *, mem_b) {} };
struct Pipe : PacketSink { Pipe(simtime_picosec, EventList &) {} };
struct Route { void push_back(PacketSink *) {} };
struct DCTCPSrc : PacketSink {
    DCTCPSrc(void *, void *, EventList &) {}
    void set_flowsize(uint64_t) {}
    void connect(const Route &, const Route &, TcpSink &sink, simtime_picosec) { EventList::sinks().push_back(&sink); }
};
struct TcpRtxTimerScanner {
    TcpRtxTimerScanner(simtime_picosec, EventList &) {}
    void registerTcp(DCTCPSrc &) {}
};
"""
"""Those parts of htsim that the star uses: each event brings 1000 bytes of every flow."""


@pytest.fixture
def htsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a checkout of htsim, and benchmarks in their short form."""
    monkeypatch.setattr(bench, "measured", partial(measured, preset="short"))
    sources = tmp_path / "htsim" / "sim"
    sources.mkdir(parents=True)
    (sources / "config.h").write_text(HTSIM)
    for name in HEADERS:
        (sources / f"{name}.h").write_text('#include "config.h"\n')
    (sources / "Makefile").write_text("libhtsim.a:\n\tar rcs $@\n")
    return tmp_path / "htsim"


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_runs_in_its_short_form(
    group: str,
    htsim: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: list[Row] = []

    def kept(name: str, **given: Any) -> list[Row]:
        found.extend(measured(name, "short", **given))
        return found

    monkeypatch.setattr(bench, "measured", kept)
    status, said = main([group, "--htsim", str(htsim)]), capsys.readouterr()
    if reason := lacking(said.err):
        pytest.skip(reason)
    assert status == 0, said.err
    assert f"{group}: {GROUPS[group]['title']}" in said.out
    repeats = [part["short"]["repeats"] for part in GROUPS[group]["functions"].values() for _ in part["rows"]]
    assert [len(row.values) for row in found] == repeats
    assert all(0 < value < math.inf for row in found for value in row.values)


def test_transports_need_a_leaf_spine_to_be_measured_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packetsim, "LEAGUE", "ndp_incast")
    with pytest.raises(ConfigError, match="ndp_incast has no point leaf_spine"):
        packetsim.transports(1)


def test_every_preset_gives_what_its_function_takes() -> None:
    for group in GROUPS.values():
        for name, part in group["functions"].items():
            module, _, function = name.partition(".")
            taken = signature(getattr(import_module(f"ncc.study.bench.{module}"), function))
            for preset in PRESETS:
                taken.bind_partial(**part[preset])
            assert part.keys() == {*PRESETS, "rows"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda of: of.update(none={"what": "a figure that nobody measures", "unit": "x", "at_least": 1}), ValueError),
        (lambda of: of.pop("sync"), ValueError),
        (lambda of: of.update(sync=of["sync"] | {"at_lest": 1}), TypeError),
    ],
)
def test_rows_and_targets_are_those_of_the_figures(
    change: Callable[[dict[str, Any]], Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = GROUPS["environment"]["functions"]["stepping.entry_points"]
    changed = dict(part["rows"])
    change(changed)
    monkeypatch.setitem(part, "rows", changed)
    monkeypatch.setattr(stepping, "entry_points", lambda **_: {"sync": (1.0,), "workers": (1.0,)})
    with pytest.raises(error, match=r"groups\.yaml has|at_lest"):
        measured("environment", "short")


def test_tasks_take_turns_from_both_ends() -> None:
    seen: list[float] = []

    def task(number: float) -> Callable[[], float]:
        def run() -> float:
            seen.append(number)
            return number

        return run

    assert in_turn(3, task(1), task(2)) == [(1, 1, 1), (2, 2, 2)]
    assert seen == [1, 2, 2, 1, 1, 2]
    assert over((4.0, 9.0), (2.0, 3.0)) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("values", "verdict"), [((49.0, 51.0, 40.0), "met"), ((49.0, 51.0, 52.0), "missed"), ((50.0,), "met")]
)
def test_the_median_is_compared_with_the_target(values: tuple[float, ...], verdict: str) -> None:
    assert Row("a", "us", at_most=50, values=values).cells()[3:] == ["at most 50", verdict]
    below = tuple(-value for value in values)
    assert Row("a", "x", at_least=-50, values=below).cells()[3:] == ["at least -50", verdict]
    assert Row("a", "ms", values=(1.0, 2.0, 4.0)).cells() == ["a", "2 ms", "1 to 4", "", ""]
    assert len(table([Row("a", "x", values=values)]).splitlines()) == 3


def test_an_unknown_group_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sped"]) == 2
    said = capsys.readouterr().err
    assert "'sped'" in said
    assert all(group in said for group in GROUPS)


def test_htsim_is_skipped_by_name_without_a_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["htsim"]) == 0
    assert "htsim: skipped: name the folder of a clone of github.com/Broadcom/csg-htsim with --htsim\n" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("edit", "status", "said"),
    [
        (("dctcp.h", "", None), 2, "is no checkout of htsim, it has no sim/dctcp.h: name the folder of a clone"),
        (("config.h", "#pragma once", "#error too old"), 1, "cannot be built: config.h:2:2: error: #error too old\n"),
        (
            ("config.h", "return true;", "return false;"),
            1,
            "htsim's star ended with status 0, 0 of 16 flows delivered\n",
        ),
    ],
)
def test_what_is_wrong_with_htsim_is_one_sentence(
    edit: tuple[str, str, str | None],
    status: int,
    said: str,
    htsim: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (file, old, new), folder = edit, htsim / "sim"
    if new is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text((folder / file).read_text().replace(old, new, 1))
    assert main(["htsim", "--htsim", str(htsim)]) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def _rows_of_page(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Texts and targets of the rows, by the title of their group."""
    found = {}
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        lines = [[cell.strip() for cell in line.split("|")] for line in section.splitlines() if line.startswith("| ")]
        if lines:
            found[section.partition("\n")[0]] = [(cells[1], cells[4]) for cells in lines[2:]]
    return found


def _rows(group: str) -> list[Row]:
    parts = GROUPS[group]["functions"].values()
    return [Row(**row, values=(1.0, 2.5)) for part in parts for row in part["rows"].values()]


def _rows_of_groups() -> dict[str, list[tuple[str, str]]]:
    every = {GROUPS[name]["title"]: [row.cells() for row in _rows(name)] for name in GROUPS}
    return {title: [(cells[0], cells[3]) for cells in lines] for title, lines in every.items()}


def test_the_page_has_the_rows_and_targets_of_the_groups() -> None:
    page = ROOT / "docs" / "speed.md"
    assert _rows_of_page(page) == _rows_of_groups()


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "measured", _rows)
    page = tmp_path / "speed.md"
    assert main(["--write", str(page)]) == 0
    assert _rows_of_page(page) == _rows_of_groups()
    text = page.read_text(encoding="utf-8")
    assert "| training on packetsim, agent-steps per CPU second | 1.75 k/s | 1 to 2.5 |  |  |" in text
    assert "packetsim over htsim |  | not measured | at least 1.7 |  |" in text
    assert " cores; commit " in text.partition("Measured on ")[2].partition("\n")[0]
    assert main(["ns3", "--write", str(page)]) == 2
    assert "leave out ns3" in capsys.readouterr().err
