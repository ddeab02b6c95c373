# SPDX-License-Identifier: BSD-3-Clause
"""The runs that a YAML describes: the scenario of each contender at each point, and what is refused by name."""

from typing import Any

import pytest

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.study.load import runs_digest
from ncc.study.points import Grid, default_datapath, grid_of
from ncc.study.spec import Setting, experiment_from
from tests.study.toy import toy
from tests.support.tables import table


def grid(preset: str = "full", **changes: Any) -> Grid:
    return grid_of("toy", *experiment_from(toy(**changes), "toy"), preset)


def test_every_contender_is_at_every_point() -> None:
    made = grid()
    assert [(cell.contender, cell.point) for cell in made.cells] == [
        (name, (k, size)) for k in (10.0, 20.0) for size in ("small", "large") for name in ("gentle", "plain")
    ]


def test_axes_and_contenders_set_their_keys() -> None:
    cells = {(cell.contender, *cell.point): cell for cell in grid().cells}
    small, large = cells["gentle", 10.0, "small"], cells["gentle", 10.0, "large"]
    assert small.scenario.topology.mark_threshold_bytes == 15_000
    assert cells["gentle", 20.0, "small"].scenario.topology.mark_threshold_bytes == 30_000
    assert (small.scenario.topology.buffer_bytes, large.scenario.topology.buffer_bytes) == (100_000, 300_000)
    assert small.controller.stack.params == (("g_shift", 5),)
    assert large.controller.stack.params == (("g_shift", 4),)
    plain = cells["plain", 20.0, "large"]
    assert plain.scenario.topology.mark_threshold_bytes == 0, "a contender's own changes come last"
    assert plain.controller.stack.transport == "newreno"
    assert plain.controller.name == "plain+k-20+size-large".replace("+", "-")


def test_a_preset_runs_less_of_the_same() -> None:
    quick = grid("quick")
    assert [cell.point for cell in quick.cells] == [(10.0, "large")] * 2 + [(20.0, "large")] * 2
    assert {cell.scenario.duration_s for cell in quick.cells} == {0.05}
    assert quick.digest() != grid().digest()


@pytest.mark.parametrize(("x", "scale", "offset", "expected"), [(30, 0.1, 0, 3), (3, 2, 1, 7), (1, 0.5, 0, 0.5)])
def test_a_setting_is_a_formula(x: float, scale: float, offset: float, expected: float) -> None:
    found = Setting(key="a.b", scale=scale, offset=offset).of(x)
    assert found == expected
    assert isinstance(found, type(expected)), "whole numbers stay whole: counts and bytes take no others"


@pytest.mark.parametrize(("changes", "said"), table(__file__, "refused.yaml")["grid"])
def test_what_cannot_be_run_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        grid(**changes)


def test_an_unknown_preset() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown preset 'qick'.*Did you mean 'quick'"):
        grid("qick")


def test_words_make_no_other_experiment() -> None:
    before = runs_digest(grid())
    assert runs_digest(grid(title="Another", axes__k__label="k")) == before
    assert runs_digest(grid(axes__k__values=[10])) != before
    assert runs_digest(grid(presets__full__seeds=3)) != before


def test_a_datapath_that_is_not_built_is_named_where_no_other_runs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncc.study.points.transports_here", lambda: ({"packetsim": ("cubic",)}, {"linux": "no clang"}))
    with pytest.raises(ConfigError, match="runs all of gentle, plain; linux is not built here: no clang"):
        default_datapath(grid("quick"))
