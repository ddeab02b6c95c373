# SPDX-License-Identifier: BSD-3-Clause
"""The observation of a host each epoch: itself, its neighbours and the uplink. It is listed in features.yaml."""

from ncc.envs.observation.losses import reliable
from ncc.envs.observation.observer import SharedObserver
from ncc.envs.observation.receivers import ReceiverObserver, Rows, rule_of
from ncc.envs.observation.spec import (
    FEATURES,
    HIGH,
    LOW,
    ObservationSpec,
    aged,
    check_told,
    columns_of,
    fair_share_at,
    guard_at,
    names_of,
    obs_dim,
)

__all__ = [
    "FEATURES",
    "HIGH",
    "LOW",
    "ObservationSpec",
    "ReceiverObserver",
    "Rows",
    "SharedObserver",
    "aged",
    "check_told",
    "columns_of",
    "fair_share_at",
    "guard_at",
    "names_of",
    "obs_dim",
    "observer_of",
    "reliable",
    "rule_of",
]


def observer_of(spec: ObservationSpec) -> SharedObserver | ReceiverObserver:
    """Make the observer that a spec describes."""
    return ReceiverObserver(spec) if spec.of_receivers else SharedObserver(spec)
