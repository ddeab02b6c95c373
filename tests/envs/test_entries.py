# SPDX-License-Identifier: BSD-3-Clause
"""Names of what is observed, and tables of actions, are those of the environments."""

from itertools import product

import pytest

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.envs.observation import ObservationSpec, entry_names, fair_share_at, guard_at, neighbours_of, obs_dim
from tests.support.experiments import small_rack

SPECS = [
    ObservationSpec(neighbours=near, ages=ages)  # type: ignore[arg-type]
    for near, ages in product(("each", "pooled", "ranked", "none"), (False, True))
]


def rack(hosts: int) -> Scenario:
    return small_rack(topology={"kind": "rack", "hosts": hosts, "uplink_rate_bps": 2e9, "remotes": 2})


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.neighbours}{'_ages' if spec.ages else ''}")
def test_there_is_a_name_for_every_number(spec: ObservationSpec) -> None:
    for hosts in (2, 4, 16):
        size = obs_dim(spec, rack(hosts))
        names = entry_names(spec, size)
        assert len(names) == len(set(names)) == size
        assert neighbours_of(spec, size) == (hosts - 1 if spec.neighbours == "each" else None)
        assert names[:2] == ("rate_limit", "rtt")
        if spec.neighbours in ("pooled", "ranked"):
            assert fair_share_at(spec) == names.index("fair share")
        if (at := guard_at(spec)) is not None:
            assert [names[entry] for entry in at] == ["share among alike", "busy share", "queued flows before"]
    with pytest.raises(ConfigError, match="numbers, got 7"):
        entry_names(spec, 7)
