# SPDX-License-Identifier: BSD-3-Clause
"""Networks drawn at random from families (configs/families), and controllers that carry their flows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.families import Families, families_from
from ncc.harness.controller import Controller
from ncc.harness.run import run_once
from ncc.metrics.fct import fct_s
from ncc.run.compose import composed, load_datapath
from ncc.run.config_files import config_paths
from ncc.run.limiters import LimiterFactory

DRAIN = 10.0
"""Longest wait for the last flows, in episodes."""


@dataclass(frozen=True)
class Met:
    """Results of a controller on the networks, [n_networks] each."""

    flows: FloatArray
    mean_fct_s: FloatArray
    """Mean FCT; 1 where there is no flow."""
    timeouts_per_flow: FloatArray
    left: FloatArray
    """Flows that were not delivered in time."""


def load_families(name: str, only: Sequence[str] = (), *, epochs: int | None = None) -> Families:
    """Return the families of configs/families/<name>.yaml, or some of them by name.

    Raises:
        UnknownNameError: there are no families of that name.
    """
    if name not in (known := config_paths("families")):
        raise UnknownNameError("families", name, known)
    families = families_from(composed("train", [f"+families@families={name}"])["families"])
    for wanted in only:
        if wanted not in families.of:
            raise UnknownNameError("family", wanted, families.of)
    of = {key: family for key, family in families.of.items() if key in only or not only}
    return families.replace(of=of, epochs=epochs or families.epochs)


def drawn(families: Families, seed: int, n: int, drain: float = DRAIN) -> list[Scenario]:
    """Draw networks; equal seeds draw equal ones, and none is an episode of a training."""
    networks = [families.draw(derive_seed(seed, "random_networks"), i, 0) for i in range(n)]
    return [network.replace(drain_s=drain * network.duration_s) for network in networks]


def play(controller: Controller, networks: Sequence[Scenario], seed: int, factory: LimiterFactory) -> Met:
    """Let a controller carry the flows of each network."""
    datapath = load_datapath("packetsim").load()()
    rows = []
    for i, scenario in enumerate(networks):
        flow_seed = derive_seed(seed, "random_networks", "flows", i)
        if not len(scenario.flows(flow_seed)):
            rows.append((0, 1.0, 0.0, 0.0))
            continue
        served = factory.resolved(controller, scenario)
        limiter = factory(served, scenario)
        run = run_once(datapath, scenario, served, limiter, derive_seed(seed, "run"), flow_seed=flow_seed)
        records, end_s = run.records.flows, scenario.duration_s + (scenario.drain_s or 0)
        taken_s = fct_s(run.flows, records, end_s)
        rows.append((len(taken_s), taken_s.mean(), records.timeouts.mean(), np.isnan(records.finish_s).sum()))
    return Met(*np.array(rows).T)
