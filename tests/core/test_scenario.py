# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios: frozen, hashable, true to their JSON; every bad input is refused by field with what is allowed."""

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario, Transport, scenario_from_dict
from ncc.core.topologies import Rack
from ncc.core.value import from_json
from ncc.core.workload import Fixed, Flow
from tests.support.scenarios import scenarios
from tests.support.tables import table

PLAIN: dict[str, Any] = {
    "name": "rack",
    "topology": {"kind": "rack", "hosts": 4},
    "workload": {
        "background": {
            "kind": "poisson",
            "distribution": "websearch",
            "load_frac": 0.5,
            "sources": "hosts",
            "destinations": "remotes",
        },
        "list": {"kind": "fixed", "flows": [{"start_s": 0, "src": "h0", "dst": "r0", "size_bytes": 1}]},
    },
    "duration_s": 0.5,
}
Edit = Callable[[dict[str, Any]], object]


def build(edit: Edit = lambda plain: None) -> Scenario:
    plain = copy.deepcopy(PLAIN)
    edit(plain)
    return scenario_from_dict(plain)


@given(scenarios())
def test_json_round_trip(scenario: Scenario) -> None:
    again = from_json(Scenario, scenario.to_json(), "scenario")
    assert again == scenario
    assert hash(again) == hash(scenario)
    assert again.to_json() == scenario.to_json()
    assert again.digest() == scenario.digest()
    plain = scenario.to_dict()
    assert scenario_from_dict(plain) == scenario
    plain["workload"] = dict(plain["workload"])  # a named mapping means the list of pairs
    assert scenario_from_dict(plain) == scenario


def test_digest_is_the_same_in_every_process_and_version() -> None:
    scenario = build()
    code = f"from ncc.core.scenario import *; print(scenario_from_dict({PLAIN!r}).digest())"
    elsewhere = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == scenario.digest() == "819e80f40c5bff15"
    blind = scenario.replace(nic=scenario.nic.replace(knows="backlog"))
    assert blind.digest() != scenario.digest()


def test_equal_values_have_equal_text_however_they_were_written() -> None:
    one = Rack(host_rate_bps=1_000_000_000, delay_s=0)
    two = Rack(host_rate_bps=1e9, delay_s=-0.0)
    assert one == two
    assert one.digest() == two.digest()
    listed = Fixed(flows=[Flow(start_s=0, src="a", dst="b", size_bytes=1)])  # type: ignore[arg-type]
    assert hash(listed) == hash(Fixed(flows=(Flow(start_s=0.0, src="a", dst="b", size_bytes=1),)))


def set_in(*path: str, value: object) -> Edit:
    def edit(plain: dict[str, Any]) -> None:
        place: Any = plain
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value

    return edit


def drop(*path: str) -> Edit:
    def edit(plain: dict[str, Any]) -> None:
        place: Any = plain
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return edit


@pytest.mark.parametrize("row", table(__file__, "scenario.yaml"), ids=str)
def test_bad_input_names_the_field_and_what_is_allowed(row: list[Any]) -> None:
    where, *value, message = row
    path = where.split(".")
    with pytest.raises(ConfigError) as caught:
        build(set_in(*path, value=value[0]) if value else drop(*path))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_load_above_one_needs_an_end() -> None:
    over = set_in("workload", "background", "load_frac", value=1.5)
    assert build(over).drain_s == 2.0
    with pytest.raises(
        ConfigError, match=r"offers 1.50 of tor->core: with drain_s null .* lower load_frac or set drai"
    ):
        build(lambda plain: (over(plain), plain.update(drain_s=None)))


def test_epochs_are_bounded() -> None:
    with pytest.raises(ConfigError, match="period_s makes more than 10000000 epochs"):
        build(lambda plain: plain.update(duration_s=3600, period_s=1e-5))


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"rack"'])
def test_json_that_is_no_scenario(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^manifest.scenario (is not valid JSON|must be a JSON object)"):
        from_json(Scenario, text, "manifest.scenario")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    ("name",),
    ("topology",),
    ("topology", "kind"),
    ("topology", "hosts"),
    ("topology", "red"),
    ("topology", "shared_buffer_bytes"),
    ("workload",),
    ("workload", "background"),
    ("workload", "background", "kind"),
    ("workload", "background", "load_frac"),
    ("workload", "list", "flows"),
    ("period_s",),
    ("transport",),
    ("nic",),
]


@given(st.sampled_from(PLACES), json_values)
def test_any_data_anywhere_gives_a_scenario_or_one_clear_error(place: tuple[str, ...], value: object) -> None:
    try:
        scenario = build(set_in(*place, value=value))
    except ConfigError as error:
        assert str(error).startswith("scenario")  # noqa: PT017 - either outcome is right, this is about the error's
    else:
        assert from_json(Scenario, scenario.to_json(), "scenario") == scenario


def test_buffers_that_nobody_names_hold_every_path() -> None:
    """4 MiB, as ever, or four times 4 Gbit/s x 40 ms, between two remotes; the digest is that of their sizes."""
    near = scenario_from_dict(PLAIN)
    far = near.replace(topology=Rack(delay_s=0.01))
    assert near.transport.send_buffer_bytes is None
    own_bytes = far.sockets.send_buffer_bytes
    assert own_bytes == pytest.approx(4 * 4e9 * 0.04 / 8, rel=0.001)
    assert (near.sockets.send_buffer_bytes, near.sockets.receive_buffer_bytes) == (2**22, 2**22)
    assert (far.sockets.send_buffer_bytes, far.sockets.receive_buffer_bytes) == (own_bytes, own_bytes)
    assert near.digest() == near.replace(transport=near.sockets).digest()
    named = far.replace(transport=far.transport.replace(send_buffer_bytes=2**22))
    assert (named.sockets.send_buffer_bytes, named.sockets.receive_buffer_bytes) == (2**22, own_bytes)
    assert named.digest() != far.digest()


def test_buffers_hold_the_path_between_two_hosts_of_a_switch() -> None:
    """10 Gbit/s x 8 ms between them; towards the remote it is a tenth of that."""
    rack = Rack(hosts=2, host_rate_bps=1e10, uplink_rate_bps=1e9, remotes=1, remote_rate_bps=1e9, delay_s=2e-3)
    flow = Flow(start_s=0.0, src="h0", dst="h1", size_bytes=1)
    scenario = Scenario(name="near", topology=rack, workload=(("one", Fixed(flows=(flow,))),), duration_s=0.1)
    assert scenario.sockets.send_buffer_bytes == pytest.approx(4 * 1e10 * 8e-3 / 8, rel=0.01)
    assert not list(scenario.unusual())
    small = scenario.replace(transport=Transport(send_buffer_bytes=2**22))
    assert "holds a flow from h0 to h1 to 0.31 of its line" in next(small.unusual())
