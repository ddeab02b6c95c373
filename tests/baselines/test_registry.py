# SPDX-License-Identifier: BSD-3-Clause
"""The table as Python sees it, and what it refuses."""

import re
from pathlib import Path

import pytest

import ncc.baselines
from ncc.baselines import _baselines
from ncc.baselines.registry import (
    Ecn,
    Needs,
    check_params,
    controller,
    controllers,
    message_transports,
    named,
    transport_params,
)
from ncc.core.errors import ConfigError, UnknownNameError


def test_the_table_names_what_it_holds() -> None:
    table = controllers()
    assert {"dctcp", "newreno"} <= set(table)
    assert table["dctcp"].ecn is Ecn.DCTCP
    assert table["newreno"].ecn is Ecn.CLASSIC
    for info in table.values():
        assert info.summary
        most = _baselines.SIM_STATE_MAX if info.needs & ~Needs.RATE else _baselines.STATE_MAX
        assert 0 < info.state_bytes <= most
        for param in info.params:
            assert param.min <= param.default <= param.max
            assert param.help


def test_parameters_come_back_complete_and_in_order() -> None:
    values = check_params("dctcp", {"alpha_init": 7})
    assert list(values) == [param.name for param in controller("dctcp").params]
    assert values["alpha_init"] == 7
    assert values["g_shift"] == 4


def test_unknown_names_are_refused_with_what_exists() -> None:
    with pytest.raises(UnknownNameError, match=r"controller 'dctpc'.*Did you mean 'dctcp'.*newreno"):
        controller("dctpc")
    with pytest.raises(UnknownNameError, match=r"parameter of dctcp 'g'.*g_shift"):
        check_params("dctcp", {"g": 1})


@pytest.mark.parametrize("value", [0, 11, -1, 2**70, 4.0, True, "4", None])
def test_values_out_of_range_are_refused_with_the_range(value: object) -> None:
    with pytest.raises(ConfigError, match=r"Parameter g_shift of dctcp must be a whole number from 1 to 10"):
        check_params("dctcp", {"g_shift": value})


FOLDER = Path(ncc.baselines.__file__).parent


def needs_card(header: Path) -> bool:
    """A controller or program (it is registered) or what a switch does to a packet; not what these share."""
    text, name = header.read_text(), re.escape(header.stem)
    registered = rf"^NCC_(CC|SW)_REGISTER\w*\({name}\b"
    return bool(re.search(registered, text, re.M) or re.search(rf"\bncc_{name}_admit\(", text))


DESCRIBED = sorted(header.stem for header in FOLDER.glob("*.h") if needs_card(header))
PROGRAMS, TAGS, FRONTS = named("program of a switch"), named("tags"), named("front end")


def test_who_needs_a_card_is_found() -> None:
    assert {"step_mark", "red", "dynamic_threshold", "bcc"} == set(DESCRIBED) - set(controllers()) - set(PROGRAMS)
    assert {*controllers(), *PROGRAMS} <= set(DESCRIBED)
    cards = {card.stem for card in (FOLDER / "cards").glob("*.md")}
    assert cards <= {*DESCRIBED, *TAGS, *FRONTS, *message_transports()}, "a card of what is not there"
    assert not {*message_transports(), *FRONTS} & {*controllers(), *PROGRAMS}, "two headers of one name"


@pytest.mark.parametrize("name", [*DESCRIBED, *message_transports()])
def test_every_controller_and_switch_setting_has_a_card(name: str) -> None:
    card = FOLDER / "cards" / f"{name}.md"
    assert card.exists(), f"write {card.name}: source, equations, parameters, deviations"
    text = card.read_text()
    for section in ("**What.**", "## Equations", "## Parameters", "## Deviations and their effect"):
        assert section in text, f"{card.name} has no {section!r}"


@pytest.mark.parametrize("name", sorted(transport_params()))
def test_a_controller_s_or_transport_s_card_states_its_parameters(name: str) -> None:
    text = (FOLDER / "cards" / f"{name}.md").read_text()
    for param in transport_params()[name]:
        assert f"| `{param.name}` | {param.default} | {param.min}..{param.max} |" in text


@pytest.mark.parametrize("name", sorted({**PROGRAMS, **TAGS, **FRONTS}))
def test_a_program_s_tag_s_or_front_end_s_parameters_stand_in_a_card(name: str) -> None:
    """Tags may stand in the card of the program or the system that they are for, and front ends in one card."""
    texts = [card.read_text() for card in (FOLDER / "cards").glob("*.md")]
    for param in {**PROGRAMS, **TAGS, **FRONTS}[name]:
        row = f"| `{param.name}` | {param.default} | {param.min}..{param.max} |"
        assert any(f"`{name}" in text and row in text for text in texts), f"no card has {row}"
