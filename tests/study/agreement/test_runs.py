# SPDX-License-Identifier: BSD-3-Clause
"""The cases under load."""

import pytest

from ncc.core.workload import offered_load
from ncc.study.agreement.cases import PRESETS, load_cases


def test_the_full_preset_is_what_is_promised() -> None:
    full = PRESETS["full"]
    cases = {case.name: case.scenario for case in load_cases(full)}
    assert full.seeds >= 5
    racks = {f"rack_{table}_{load}" for table in ("websearch", "hadoop") for load in (40, 60, 80)}
    assert set(cases) == racks | {"incast"}
    assert {scenario.transport.recovery for scenario in cases.values()} == {"classic"}
    for name in racks:
        (load,) = offered_load(cases[name].workload, cases[name].network()).values()
        assert load == pytest.approx(int(name[-2:]) / 100)
        assert len(cases[name].network().agent_hosts) == 16
