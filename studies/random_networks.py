# SPDX-License-Identifier: BSD-3-Clause
"""Controllers on many networks drawn at random: the mean and the worst performance of one policy on all of them.

``python -m studies.random_networks --families mixture --of incast uplink ncc local_tuned`` draws networks and
flows from families (configs/families), by seeds that no training has. All controllers meet the same flows. For each
pair it prints the ratio of mean flow completion times: the geometric mean over networks with a 95 % bootstrap interval,
the largest, and the shares above some bounds; and timeouts per flow.

A flow that is not delivered within `--drain` episodes counts with that time, for every controller. Networks without a
flow are left out. Networks in which a learned policy decides, and not the formula LOCAL, have additional rows.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ncc.core.errors import ConfigError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed, generator
from ncc.envs.families import Families, families_from
from ncc.harness.controller import Controller
from ncc.harness.run import run_once
from ncc.metrics.fct import fct_s
from ncc.run.compose import composed, load_datapath
from ncc.run.config_files import config_paths
from ncc.run.controllers import load_controller
from ncc.run.limiters import Decider, LimiterFactory

DRAIN = 10.0
"""Longest wait for the last flows, as a multiple of the time in which flows arrive."""
BOUNDS = (1.05, 1.2)
"""Ratios of mean FCTs. For each of them, the share of networks with a larger ratio is printed."""


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


def geometric(logs: FloatArray, seed: int = 0) -> tuple[float, float, float]:
    """Return the exponential of the mean of `logs` [n], and the ends of its 95 % bootstrap interval."""
    picks = generator(seed, "random_networks", "bootstrap").integers(0, len(logs), (4000, len(logs)))
    low, high = np.exp(np.percentile(logs[picks].mean(1), [2.5, 97.5]))
    return float(np.exp(logs.mean())), float(low), float(high)


def lines(name: str, other: str, met: Outcomes, base: Outcomes, groups: dict[str, Any]) -> list[str]:
    """Make the rows of the table that compare one controller with another, a row for each group of networks.

    Args:
        name: name of the controller.
        other: name of the controller that it is compared with.
        met: results of the controller.
        base: results of the other one.
        groups: indices of the networks of each group, by its name.
    """
    rows_text = []
    for family, rows in groups.items():
        logs = np.log(met.mean_fct_s[rows] / base.mean_fct_s[rows])
        mean, low, high = geometric(logs)
        above = " ".join(f"{np.mean(np.exp(logs) > bound):6.1%}" for bound in BOUNDS)
        rows_text.append(
            f"{name:24} {other:14} {family:20} {len(logs):4} {mean:6.3f} [{low:.3f}, {high:.3f}] "
            f"{np.exp(np.median(logs)):6.3f} {np.exp(logs.max()):7.3f} {above} "
            f"{met.timeouts_per_flow[rows].mean():9.4f} {met.left[rows].sum():5.0f}"
        )
    return rows_text


HEAD = (
    f"{'controller':24} {'over':14} {'family':20} {'n':>4} {'geometric mean':21} median     max  >1.05   >1.2 "
    "timeouts/f  left"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status (`ncc.core.options.exit_status`)."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m studies.random_networks", description=__doc__)
    parser.add_argument("controllers", nargs="+", help="as for ncc evaluate controller=[...]")
    parser.add_argument("--over", nargs="+", default=["dctcp"], help="controllers to compare with")
    parser.add_argument("--families", default="mixture", help="name in configs/families")
    parser.add_argument("--of", nargs="+", default=[], help="names of some of these families")
    parser.add_argument("--networks", type=count, default=256)
    parser.add_argument("--seed", type=count, default=1, help="of networks and flows, from 1")
    parser.add_argument("--epochs", type=count, help="periods in which flows arrive; default: as in training")
    parser.add_argument("--drain", type=float, default=DRAIN, help="longest wait for the last flows, in episodes")
    options = parser.parse_args(arguments)
    names = list(dict.fromkeys([*options.over, *options.controllers]))
    if len(names) == 1:
        raise ConfigError(f"{names[0]} would be compared with itself: name another controller, or another after --over")
    families = load_families(options.families, options.of, epochs=options.epochs)
    networks = drawn(families, options.seed, options.networks, options.drain)
    logging.getLogger("ncc.harness.run").setLevel(logging.ERROR)  # the column "left" has what it warns of
    factory = LimiterFactory(None)
    controllers = {name: load_controller(name) for name in names}
    met = {}
    for name, controller in controllers.items():
        met[name] = play(controller, networks, options.seed, factory)
        print(f"{name}: {options.networks} networks", file=sys.stderr)
    families_met = np.array([scenario.name for scenario in networks])
    decide = {
        name: np.array([factory.decider(controllers[name], scenario)[0] is Decider.ITSELF for scenario in networks])
        for name in options.controllers
    }
    groups = _groups(families_met, met[names[0]].flows > 0, decide)
    print(HEAD)
    for name in options.controllers:
        for other in options.over:
            if other != name:
                print("\n".join(lines(name, other, met[name], met[other], groups)))
    return 0


def _groups(
    families: npt.NDArray[np.str_], carried: npt.NDArray[np.bool_], decide: dict[str, npt.NDArray[np.bool_]]
) -> dict[str, npt.NDArray[np.int64]]:
    """Return groups of the networks that have a flow, as indices by the group's name.

    One group has all of them. There is one for each family, if there are several, and one for each controller that
    decides in some of the networks only.

    Args:
        families: name of each network's family, [n_networks].
        carried: mask of the networks that have a flow, [n_networks].
        decide: mask of the networks in which a controller itself decides on limits, [n_networks], by controller.

    Raises:
        ConfigError: no network has a flow.
    """
    if not carried.any():
        raise ConfigError("no network has a flow: draw more (--networks), or let flows arrive for longer (--epochs)")
    if not carried.all():
        print(f"{np.sum(~carried)} of {len(carried)} networks have no flow and are left out")
    groups = {"all": carried}
    if len(of := sorted(set(families[carried]))) > 1:
        groups |= {name: (families == name) & carried for name in of}
    for name, its in decide.items():
        if not (its & carried).any():
            print(f"{name} decides in none of these networks: {Decider.LOCAL.value}")
        elif (carried & ~its).any():
            groups[f"{name} decides"] = its & carried
    return {name: np.flatnonzero(rows) for name, rows in groups.items()}


def count(text: str) -> int:
    """Read an option's value, which must be a whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
