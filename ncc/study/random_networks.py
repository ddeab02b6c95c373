# SPDX-License-Identifier: BSD-3-Clause
"""Networks drawn at random from families (configs/families), and runs of controllers on them."""

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
"""Longest wait for the last flows, as a multiple of the time in which flows arrive."""


@dataclass(frozen=True)
class Outcomes:
    """Results of a controller on several networks; all arrays are [n_networks]."""

    flows: FloatArray
    """Number of flows."""
    mean_fct_s: FloatArray
    """Mean FCT in seconds; 1 if there is no flow. A flow that was not delivered counts with its time until the end."""
    timeouts_per_flow: FloatArray
    """Mean number of retransmission timeouts of a flow; 0 if there is no flow."""
    left: FloatArray
    """Number of flows that were not delivered before the run ended."""


def load_families(name: str, only: Sequence[str] = (), *, epochs: int | None = None) -> Families:
    """Return the families of configs/families/<name>.yaml.

    Args:
        only: names of the families to keep; empty: all.
        epochs: number of periods in which flows arrive; None: as the file says.

    Raises:
        UnknownNameError: there is no such file, or it has no family of a name in `only`.
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
    """Draw n networks. Equal seeds draw equal networks, and none of them is an episode of a training.

    Args:
        drain: longest wait for the last flows, as a multiple of the time in which flows arrive.
    """
    networks = [families.draw(derive_seed(seed, "random_networks"), i, 0) for i in range(n)]
    return [network.replace(drain_s=drain * network.duration_s) for network in networks]


def play(controller: Controller, networks: Sequence[Scenario], seed: int, factory: LimiterFactory) -> Outcomes:
    """Run a controller on packetsim, once on each network, with flows drawn from `seed`.

    Equal networks and seeds give equal flows, whatever the controller.
    """
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
    return Outcomes(*np.array(rows).T)
