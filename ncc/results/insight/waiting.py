# SPDX-License-Identifier: BSD-3-Clause
"""Limits of hosts by what goes before their next flow, of several controllers on the same measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import BoolArray, FloatArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.observation import ObservationSpec, SharedObserver, columns_of
from ncc.envs.scales import scales_of
from ncc.harness.run import eval_flow_seed, limiter_seed
from ncc.results.notebook.hosts import replayed, watched_run

VIEW = ObservationSpec(neighbours="ordered", ages=True)
SEEN = ("queued_flows", "queued flows before", "bytes ahead", "hosts before")
IN_ORDER = (4.0, 4.0)
"""Numbers of "bytes ahead" and "hosts before" that are observed as 1, as in kinds.h."""


@dataclass(frozen=True)
class Waiting:
    """States of hosts in runs of the first controller, and what each controller decides there."""

    limits: Mapping[str, FloatArray]
    """[n] limit over the link's rate by controller, at most 1."""
    busy: BoolArray
    """[n] true if something is queued."""
    known: BoolArray
    """[n] true if that was so too when the neighbours sent what the host sees; else a burst has just begun."""
    periods_before: FloatArray
    """[n] bytes that go before the host's next flow, in what the uplink carries in a period."""
    hosts_before: FloatArray
    """[n] hosts that go before, at most 8."""


def waiting(controllers: Sequence[str], networks: Sequence[Scenario], run: Path | None = None) -> Waiting:
    """Let the first controller carry flows of each network, and ask the others on what its hosts met.

    Args:
        run: run folder of its policy; None: the package's.

    Raises:
        ConfigError: no network has a flow.
    """
    rows: list[FloatArray] = []
    decided: dict[str, list[FloatArray]] = {name: [] for name in controllers}
    at = columns_of(VIEW, SEEN)
    assert at is not None, "the view has all of them"
    for number, scenario in enumerate(networks):
        if not len(scenario.flows(eval_flow_seed(number))):
            continue
        _, measurements, limits = watched_run(scenario, controllers[0], training=run, seed=number)
        observer = SharedObserver(VIEW)
        observer.reset(scenario, seed=derive_seed(limiter_seed(0), "sharing"))
        rows.append(np.array([observer.observe(m)[:, at] for m in measurements[:-1]]).reshape(-1, len(at)))
        asked = {controllers[0]: limits, **{name: replayed(scenario, name, measurements) for name in controllers[1:]}}
        for name, found in asked.items():
            decided[name].append(np.minimum(found / scales_of(scenario).link_rate_bps, 1).ravel())
    if not rows:
        raise ConfigError("none of these networks has a flow to carry; draw more, or raise duration_s or the load")
    queued, before, ahead, first = np.concatenate(rows).astype(np.float64).T
    return Waiting(
        limits={name: np.concatenate(found) for name, found in decided.items()},
        busy=queued > 0,
        known=before > 0,
        periods_before=ahead * IN_ORDER[0],
        hosts_before=np.round(first * IN_ORDER[1]),
    )
