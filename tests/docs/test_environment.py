# SPDX-License-Identifier: BSD-3-Clause
"""The page of observations, actions and rewards says what the code does."""

import re

import msgspec
import pytest

from docs import environment
from ncc.core.errors import ConfigError
from ncc.envs.action import ActionSpec
from ncc.envs.make import env_spec
from ncc.envs.observation import obs_dim
from ncc.envs.observation.columns import COLUMNS
from ncc.envs.observation.spec import FEATURES, TABLE
from tests.house.files import texts


def test_the_page_is_of_this_code() -> None:
    assert environment.PAGE.read_text() == environment.page(), "write it anew: python -m docs.environment"


def test_every_number_has_a_meaning_and_a_view() -> None:
    rows = [line.split(" | ") for line in environment.features().splitlines()[2:]]
    assert len(rows) == len(FEATURES)
    assert all(len(cell.strip(" |")) >= 3 for row in rows for cell in (row[1], row[3]))


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("view", TABLE["views"])
def test_the_lengths_are_those_of_an_environment(view: str, *, ages: bool) -> None:
    (row,) = [line for line in environment.views().splitlines() if line.startswith(f"| `{view}`")]
    fixed, per = map(int, re.fullmatch(r"(\d+)(?: \+ (\d+) N)?", row.split(" | ")[2 + ages].strip(" |")).groups("0"))  # type: ignore[union-attr]
    spec = env_spec(scenario="incast", hosts=8, observation={"neighbours": view, "ages": ages})
    assert obs_dim(spec.view.observation, spec.scenario) == fixed + 7 * per


def test_pages_of_agents_link_to_it() -> None:
    for page, target in (
        ("README.md", "docs/environment.md"),
        ("docs/gymnasium.md", "environment.md"),
        ("docs/agents/README.md", "../environment.md"),
    ):
        assert f"]({target})" in texts()[page]


def test_what_the_page_would_leave_out_is_refused() -> None:
    """A choice that a docstring words otherwise, and a type without words."""
    with pytest.raises(ConfigError, match="must describe each kind once, levels, shares, linear, log, residual"):
        environment._described(ActionSpec, "kind", r"`kind` (``\w+``): (.*?)(?=\n\n|$)")
    with pytest.raises(ConfigError, match="has no words for settings of type"):
        environment._allowed(msgspec.inspect.type_info(dict))


def test_a_formula_has_all_that_a_column_does() -> None:
    meaning, value = environment._column(COLUMNS["mean_wait"])
    assert meaning.startswith("mean over queued flows of the time since")
    assert value == "L(`wait_s` / max(`queued_flows`, 1) / period, `wait_scale`)"
    assert environment._column(COLUMNS["limit"])[1] == "min(`rate_limit_bps`, `link_rate_bps`) / link rate"
