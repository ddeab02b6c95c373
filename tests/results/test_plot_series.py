# SPDX-License-Identifier: BSD-3-Clause
"""Figures of several controllers over time."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray, Graph
from ncc.harness.run import Run
from ncc.harness.trace import WindowTrace
from ncc.metrics.requests import qct_s
from ncc.results.closeup import busiest, closeup, slowest_request
from ncc.results.plot import epoch_timeline, flow_timeline, port_timeline, request_timeline, window_timeline
from ncc.results.plot.canvas import carried_bps
from tests.support.experiments import fluid_run


def runs() -> list[Run]:
    return [fluid_run(), fluid_run(share=True)]


def trace(controller: str, n: int = 3) -> WindowTrace:
    cwnd: FloatArray = np.outer(np.arange(1.0, 51.0), np.full(n, 1460.0))
    cwnd[:5] = np.nan
    cwnd[30:, 0] = np.nan
    return WindowTrace(controller, "packetsim", np.linspace(0.001, 0.05, 50), np.arange(n), cwnd, 1460)


def test_equal_data_make_equal_files_and_other_data_others(tmp_path: Path) -> None:
    ours, changed = runs(), runs()
    finish_s = changed[0].records.flows.finish_s.copy()
    finish_s[:3] = np.nan
    late = np.ones_like(changed[0].records.flows.timeouts)
    flows = replace(changed[0].records.flows, finish_s=finish_s, timeouts=late)
    changed[0] = replace(changed[0], records=replace(changed[0].records, flows=flows))
    for name, each in (("a", ours), ("b", runs()), ("c", changed)):
        flow_timeline(each, tmp_path / f"{name}.svg")
    texts = {name: (tmp_path / f"{name}.svg").read_text() for name in "abc"}
    assert texts["a"] == texts["b"]
    assert "never delivered" not in texts["a"]
    assert "never delivered" in texts["c"]
    assert "had a timeout" in texts["c"]
    white = re.compile(r"stroke: #fff(?:fff)?\b")
    assert len(white.findall(texts["c"])) > len(white.findall(texts["a"])), "marks stand out from black bars"


def asking(share: bool = False) -> Run:
    """A run whose first three flows are request 0, and the next two request 1; the second flow of each is an answer."""
    run = fluid_run(share=share)
    n = len(run.flows)
    request, answer = np.full(n, -1), np.zeros(n, np.bool_)
    request[:5], answer[[1, 4]] = [0, 0, 0, 1, 1], True
    graph = Graph(request, answer, np.full(n, -1), np.full(n, -1), np.zeros(n))
    start_s = run.flows.start_s.copy()
    if share:
        start_s[2] = np.nan
    finish_s = np.where(np.isnan(start_s), np.nan, run.records.flows.finish_s)
    records = replace(run.records, flows=replace(run.records.flows, finish_s=finish_s))
    return replace(run, flows=replace(run.flows, start_s=start_s, graph=graph), records=records)


def test_a_request_is_drawn_from_its_begin_by_who_sent_to_whom(tmp_path: Path) -> None:
    ours, theirs = asking(), asking(share=True)
    request_timeline([ours, theirs], 0, tmp_path / "request.svg")
    text = (tmp_path / "request.svg").read_text()
    nodes, flows = ours.scenario.network().nodes, ours.flows
    for row in range(3):
        way = f"{nodes[flows.src[row]].name} to {nodes[flows.dst[row]].name}"
        assert f">{way}<" in text, "a label beside the bar"
        assert f"<title>{way}, {flows.size_bytes[row]:,} bytes: " in text
    took_ms = 1e3 * (ours.records.flows.finish_s[:3].max() - flows.start_s[0])
    assert f">fluid: {took_ms:.3g} ms<" in text
    assert ">share: unfinished<" in text
    assert "never delivered" in text
    assert "url(#h" in text, "answers are hatched"
    for runs_of, number, said in (
        ([ours], 2, "no flow of request 2 started"),
        ([fluid_run()], 0, "no flow of request 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            request_timeline(runs_of, number, tmp_path / "no.svg")


def test_a_closeup_of_requests_shows_the_slowest() -> None:
    run = asking()
    part = busiest([run])
    slow = int(np.argmax(qct_s(run.flows, run.records.flows)))
    assert slowest_request([run]) == slow
    assert "who sent to whom" in closeup([run], part)["request"].caption
    assert "request" not in closeup([fluid_run()], part)
    assert slowest_request([fluid_run()]) is None


def test_every_figure_names_the_datapath_of_its_runs(tmp_path: Path) -> None:
    port_timeline(runs(), tmp_path / "port.svg")
    flow_timeline(runs(), tmp_path / "flows.svg")
    epoch_timeline(fluid_run(), tmp_path / "epochs.svg")
    window_timeline([trace("ncc"), trace("dctcp")], tmp_path / "windows.svg")
    said = {
        "port": " of small_rack on fluid",
        "flows": "Flows of small_rack on fluid from arrival to delivery",
        "epochs": "fluid in small_rack on fluid, seed 1",
        "windows": "Congestion windows on packetsim at the end of each epoch",
    }
    for name, title in said.items():
        assert f"{title}</text>" in (tmp_path / f"{name}.svg").read_text(), name
    other = replace(fluid_run(share=True), datapath="ns3")
    port_timeline([fluid_run(), other], tmp_path / "both.svg")
    assert " on fluid and ns3</text>" in (tmp_path / "both.svg").read_text()


def test_levels_of_ports_that_differ_name_their_contenders(tmp_path: Path) -> None:
    alike, other = runs()
    port_timeline([alike, other], tmp_path / "alike.svg")
    assert (tmp_path / "alike.svg").read_text().count(">marking threshold") == 1
    topology = other.scenario.topology.replace(mark_threshold_bytes=other.scenario.topology.mark_threshold_bytes // 2)
    other = replace(other, scenario=other.scenario.replace(topology=topology))
    port_timeline([alike, other], tmp_path / "differ.svg")
    said = re.findall(r">(marking threshold[^<]*)<", (tmp_path / "differ.svg").read_text())
    assert said == ["marking threshold of fluid", "marking threshold of share"]


def test_a_legend_names_every_controller_once(tmp_path: Path) -> None:
    port_timeline(runs(), tmp_path / "port.svg")
    text = (tmp_path / "port.svg").read_text()
    assert text.count("<title>fluid</title>") == text.count("<title>share</title>") == 3, "a line in each panel"
    text = re.sub("<title>.*?</title>", "", text)
    assert text.count(">fluid<") == 1
    assert text.count(">share<") == 1
    assert text.count(">line rate<") == 1


def test_no_period_carries_more_than_the_link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The excess of a period is carried in the next ones, and what the link could have carried is gone."""
    sent, line = np.array([0.0, 6.0, 3.0, 1.0, 0.0, 9.0]), 4.0
    assert carried_bps(sent, line).tolist() == [0, 4, 4, 2, 0, 4]
    quiet = np.array([1.0, 4.0, 2.5])
    assert carried_bps(quiet, line) == pytest.approx(quiet)
    drawn, plot = list[FloatArray](), Axes.plot

    def recorded(axes: Axes, x: FloatArray, y: FloatArray, **look: Any) -> Any:
        drawn.append(y)
        return plot(axes, x, y, **look)

    monkeypatch.setattr(Axes, "plot", recorded)
    run = fluid_run()  # over an uplink of 2 Gbit/s
    sent_bps = np.full_like(run.epochs.columns["uplink_throughput_bps"], 2.2e9)
    run = replace(run, epochs=replace(run.epochs, columns={**run.epochs.columns, "uplink_throughput_bps": sent_bps}))
    port_timeline([run], tmp_path / "port.svg")
    of_ports = len(drawn)
    epoch_timeline(run, tmp_path / "epochs.svg")
    assert drawn[0].max() == drawn[of_ports].max() == pytest.approx(2.0)


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    path, one = tmp_path / "x.png", fluid_run()
    for draw in (port_timeline, flow_timeline):
        for others in ([one, one], [one, fluid_run(seed=2, share=True)]):
            with pytest.raises(ConfigError, match="not of different controllers on the same flows"):
                draw(others, path)
    with pytest.raises(ConfigError, match=r"area must be in \[0, 1\)"):
        port_timeline([one], path, area=1)
    with pytest.raises(ConfigError, match="holds no epoch"):
        port_timeline([one], path, window_s=(7.0, 8.0))
    with pytest.raises(ConfigError, match="no flow arrives in window_s"):
        flow_timeline([one], path, window_s=(7.0, 8.0))
    with pytest.raises(ConfigError, match="no flow has a connection at the end of any epoch"):
        window_timeline([trace("ncc")], path, window_s=(0.0, 0.005))
    assert not list(tmp_path.iterdir())
