# SPDX-License-Identifier: BSD-3-Clause
"""Figures of several controllers over time."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.harness.run import Run
from ncc.harness.trace import WindowTrace
from ncc.results.plot import flow_timeline, port_timeline, window_timeline
from tests.support.experiments import fluid_run


def runs() -> list[Run]:
    return [fluid_run(), fluid_run(share=True)]


def trace(controller: str, n: int = 3) -> WindowTrace:
    cwnd: FloatArray = np.outer(np.arange(1.0, 51.0), np.full(n, 1460.0))
    cwnd[:5] = np.nan
    cwnd[30:, 0] = np.nan
    return WindowTrace(controller, np.linspace(0.001, 0.05, 50), np.arange(n), cwnd, 1460)


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


def test_a_legend_names_every_controller_once(tmp_path: Path) -> None:
    port_timeline(runs(), tmp_path / "port.svg")
    text = (tmp_path / "port.svg").read_text()
    assert text.count("<title>fluid</title>") == text.count("<title>share</title>") == 3, "a line in each panel"
    text = re.sub("<title>.*?</title>", "", text)
    assert text.count(">fluid<") == 1
    assert text.count(">share<") == 1
    assert text.count(">line rate<") == 1


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
