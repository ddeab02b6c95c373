# SPDX-License-Identifier: BSD-3-Clause
"""Groups of observed numbers by what they are worth to a policy.

``python -m ncc.study.importance ncc --families mixture --of incast --networks 32`` prints two numbers of each
group (`ncc.results.insight.GROUPS`). The first is the usual factor between the limit and that which the policy would
have set on the group's numbers of another state. The second is the mean flow completion time of a policy to which the
group always says its mean over busy hosts, over that of the policy itself: the geometric mean over networks drawn at
random, with a 95 % bootstrap interval over them. All carry the same flows. Formula and guard see the true numbers.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ncc.agents.policy import load_policy, save_policy
from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.harness.batch import ObsArray
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.run import eval_flow_seed
from ncc.results.insight import Importance, Learned, blinded, groups_of, load_learned, observed, permuted
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from ncc.run.limiters import LEFT_TO_LOCAL, LimiterFactory
from ncc.study.random_networks import count, drawn, geometric, load_families, play

ALL = "all of them"
DRAIN = 10.0
"""Longest wait for the last flows, in episodes."""


def importance(name: str, networks: Sequence[Scenario], run: Path | None = None, *, seed: int = 1) -> Importance:
    """Find out what each group of numbers, and all of them together, are worth to a controller's policy.

    Args:
        run: run folder of its policy; None: the package's.
        seed: of the flows.

    Raises:
        ConfigError: the controller has no policy, or a policy file for hosts.
    """
    controller, learned = load_learned(load_controller(name), run)
    seen = states(controller, learned, networks, run)
    mean = np.concatenate([obs for _, obs in seen]).mean(axis=0)
    groups = {**groups_of(learned), ALL: tuple(range(learned.policy.obs_dim))}
    base = play(controller, networks, seed, LimiterFactory(run)).mean_fct_s
    without = []
    for places in groups.values():
        with _blind(controller, learned, places, mean, run) as blind:
            taken_s = play(blind, networks, seed, LimiterFactory(run)).mean_fct_s
        without.append(geometric(np.log(taken_s / base)))
    change = permuted(learned, seen, groups.values(), seed=seed)
    return Importance(label=learned.label, names=tuple(groups), change=change, without=np.array(without))


def states(
    controller: Controller, learned: Learned, networks: Sequence[Scenario], run: Path | None
) -> list[tuple[Scenario, ObsArray]]:
    """Return what busy hosts observe in a run of the policy on each network that has a flow."""
    datapath = load_datapath("packetsim")
    return [
        (network, observed(learned, controller, network, datapath, seed=number, run=run))
        for number, network in enumerate(networks)
        if len(network.flows(eval_flow_seed(number)))
    ]


@contextmanager
def _blind(
    controller: Controller, learned: Learned, places: Sequence[int], stand: FloatArray, run: Path | None
) -> Iterator[Controller]:
    """Provide a controller whose policy's numbers at `places` always stand at those of `stand`."""
    limit = controller.limit
    assert isinstance(limit, PolicyLimit), "it has a policy"
    path = LimiterFactory(run).path(controller.name, limit)
    with TemporaryDirectory() as folder:
        target = Path(folder) / "policy.ncc"
        save_policy(target, blinded(learned, places, stand), load_policy(path)[1])
        yield controller.replace(limit=limit.replace(path=str(target)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; exit status 2 for unusable settings."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m ncc.study.importance", description=__doc__)
    parser.add_argument("controller", help="a learned one, as for ncc evaluate controller=")
    parser.add_argument("--families", default="mixture", help="name in configs/families")
    parser.add_argument("--of", nargs="+", default=["incast"], help="names of some of these families")
    parser.add_argument("--networks", type=count, default=32)
    parser.add_argument("--seed", type=count, default=1, help="of networks and flows, from 1")
    options = parser.parse_args(arguments)
    networks = drawn(load_families(options.families, options.of), options.seed, options.networks, DRAIN)
    factory, controller = LimiterFactory(None), load_controller(options.controller)
    networks = [network for network in networks if factory.decides(controller, network)]
    if not networks:
        raise ConfigError(
            f"{options.controller} decides in none of these networks ({LEFT_TO_LOCAL}): name other --families"
        )
    print(f"{len(networks)} of {options.networks} networks are inside its ranges")
    found = importance(options.controller, networks, seed=options.seed)
    print(f"{'':32} {'decision':>9}  mean FCT without it")
    for i in found.ranked:
        mean, low, high = found.without[i]
        print(f"{found.names[i]:32} x {np.exp(found.change[i]):7.2f}  {mean:.3f} [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
