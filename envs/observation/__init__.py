# SPDX-License-Identifier: BSD-3-Clause
"""The observation of a host in each period: numbers about itself, its neighbours and the uplink (features.yaml)."""

from ncc.envs.observation.losses import reliable
from ncc.envs.observation.observer import SharedObserver
from ncc.envs.observation.spec import (
    FEATURES,
    HIGH,
    LOW,
    ObservationSpec,
    aged,
    check_on_hosts,
    columns_of,
    entry_names,
    fair_share_at,
    guard_at,
    names_of,
    neighbours_of,
    obs_dim,
)

__all__ = [
    "FEATURES",
    "HIGH",
    "LOW",
    "ObservationSpec",
    "SharedObserver",
    "aged",
    "check_on_hosts",
    "columns_of",
    "entry_names",
    "fair_share_at",
    "guard_at",
    "names_of",
    "neighbours_of",
    "obs_dim",
    "reliable",
]
