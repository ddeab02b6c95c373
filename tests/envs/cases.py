# SPDX-License-Identifier: BSD-3-Clause
"""Scenarios and measurements that the tests of the environments share."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ncc.core.measurement import Measurement, idle
from ncc.core.scenario import Scenario
from ncc.core.topologies import Rack
from ncc.core.units import GBPS
from ncc.core.workload import AnyTraffic, Fixed, Flow, Poisson
from ncc.envs.observation import ObservationSpec, SharedObserver, names_of
from ncc.envs.spec import EnvSpec
from tests.support.mm1 import Mm1Datapath

FLOWS = partial(Mm1Datapath, backlogged=False)
"""The analytic datapath with the flows it is given."""


def poisson(load_frac: float = 0.5) -> Poisson:
    return Poisson(distribution="hadoop", load_frac=load_frac, sources="hosts", destinations="remotes")


def listed(*flows: tuple[float, str, int]) -> Fixed:
    """(start_s, src, bytes), all to the first remote."""
    return Fixed(flows=tuple(Flow(start_s=at, src=src, dst="r0", size_bytes=size) for at, src, size in flows))


def rack(traffic: AnyTraffic | None = None, *, hosts: int = 4, periods: int = 10, **settings: Any) -> Scenario:
    """`hosts` hosts of 1 Gbit/s behind 2 Gbit/s."""
    return Scenario(
        name="small",
        topology=Rack(hosts=hosts, host_rate_bps=1 * GBPS, uplink_rate_bps=2 * GBPS, remotes=2),
        workload=(("traffic", traffic or poisson()),),
        duration_s=periods * 1e-3,
        **settings,
    )


def plain(scenario: Scenario) -> dict[str, Any]:
    """A scenario as plain data, its workload as a mapping of components."""
    data = scenario.to_dict()
    return {**data, "workload": dict(data["workload"])}


def spec(scenario: Scenario | None = None, **settings: Any) -> EnvSpec:
    return EnvSpec(scenario=scenario or rack(), **settings)


def measured(scenario: Scenario, epoch: int = 0, **columns: Any) -> Measurement:
    """An idle epoch of a scenario, with some columns replaced; scalars are spread over the hosts or areas."""
    begun = idle(scenario.n_agents, len(scenario.network().neighbourhoods))
    now = replace(begun, time_s=epoch * scenario.period_s, epoch=epoch, rtt_s=np.full(scenario.n_agents, 100e-6))
    shaped: dict[str, Any] = {
        name: np.broadcast_to(np.asarray(value, dtype=getattr(now, name).dtype), np.shape(getattr(now, name))).copy()
        for name, value in columns.items()
    }
    return replace(now, **shaped)


def observer(seen: ObservationSpec | None = None, scenario: Scenario | None = None, seed: int = 0) -> SharedObserver:
    """An observer at the start of the scenario."""
    made = SharedObserver(seen or ObservationSpec())
    made.reset(scenario or rack(), seed=seed)
    return made


def shown(seen: ObservationSpec, *measurements: Measurement) -> dict[str, np.ndarray]:
    """Numbers [n_agents] of the last observation by name, after these measurements in order."""
    made = observer(seen)
    obs = [made.observe(m) for m in measurements][-1]
    return dict(zip(names_of(seen, 0), obs.T, strict=True))
