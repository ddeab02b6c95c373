# SPDX-License-Identifier: BSD-3-Clause
"""The search for the constants of `local_tuned` (`ncc.harness.local`) by CMA-ES, on the networks of policy trainings.

``python studies/tuning_local.py`` prints the controller's YAML with a description of the search. Every generation draws
lists of flows from the families that the recipe `ncc` trains on, each on as many networks as fill a slot. All
candidates meet the same flows, and so does `local_hold`, where the search begins. A candidate's value is the mean over
the lists of the logarithm of its mean FCT over that of `local_hold`. At the end, the start and the means of the last
generations are compared on new lists. The best is kept, and judged on other lists.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cma
import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurements
from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed, generator
from ncc.envs.families import Families
from ncc.harness.controller import Controller, LocalLimit
from ncc.harness.local import Local
from ncc.harness.networks import DatapathFactory, networks
from ncc.run.compose import load_datapath
from ncc.run.controllers import load_controller
from studies.random_networks import count, geometric, load_families


@dataclass(frozen=True)
class Bounds:
    """Range of a constant, whose values the search sees as coordinates in [0, 1]."""

    low: float
    high: float
    log: bool = False
    """Space the coordinates evenly by the constant's logarithm; else by its value."""

    def coordinate(self, value: float) -> float:
        """Convert a value to its coordinate in [0, 1]."""
        if self.log:
            return float(np.log(value / self.low) / np.log(self.high / self.low))
        return (value - self.low) / (self.high - self.low)

    def value(self, coordinate: FloatArray) -> FloatArray:
        """Convert coordinates in [0, 1] to values."""
        if self.log:
            return self.low * (self.high / self.low) ** coordinate
        return self.low + coordinate * (self.high - self.low)


SEARCHED = {
    "headroom_frac": Bounds(-0.1, 0.15),
    "alike": Bounds(1, 4, log=True),
    "slack_periods": Bounds(0, 6),
    "floor_frac": Bounds(0.01, 1, log=True),
    "tie_frac": Bounds(0, 1),
    "ahead_periods": Bounds(0, 8),
    "queue_gain": Bounds(-1, 4),
    "queue_periods": Bounds(0, 1),
    "hold_periods": Bounds(0, 6),
    "hold_frac": Bounds(0.01, 1, log=True),
    "idle_frac": Bounds(0.05, 1, log=True),
}
"""Constants to search for, with their ranges."""
ATTAINED = {"attained_frac": Bounds(0, 4)}
"""Further constant to search for if hosts do not know sizes."""
STEP = 0.15
"""First step size of CMA-ES, in coordinates."""
LEFT_PERIODS = 100
"""Number of periods that a flow adds to the cost if it is unfinished at the end of the episode, as in training."""
SELECTED, JUDGED = 96, 192
"""Numbers of draws on which the means of late generations are compared, and on which the best of them is judged."""
LAST = 12
"""Number of generations of the second half of the search whose means are compared at its end."""


class Search:
    """A search by CMA-ES in which all candidates meet the same networks and flows.

    A point of the search has a coordinate in [0, 1] for each constant that is searched for.

    Args:
        start: controller with whose constants the search begins.
        families: families from which networks and flows are drawn.
        datapath: simulator of the networks.
        seed: seed of all draws.
        blind: True if hosts do not know the sizes of flows, but only their backlogs.

    Raises:
        ConfigError: the limit of `start` is not of kind local.
    """

    def __init__(
        self, start: Controller, families: Families, datapath: DatapathFactory, seed: int, *, blind: bool
    ) -> None:
        if not isinstance(start.limit, LocalLimit):
            raise ConfigError(f"a search begins with a controller whose limit is of kind local, got {start.name}")
        self._controller, self._families, self._datapath = start, families, datapath
        self._seed, self._blind = seed, blind
        self.start: dict[str, float] = start.limit.constants()
        self.bounds = {**SEARCHED, **(ATTAINED if blind else {})}
        self.rack_periods = 0
        """Number of periods simulated so far, summed over candidates and the start."""

    def constants(self, points: FloatArray) -> dict[str, FloatArray]:
        """Convert points [n_points, n_searched] to values of all constants, [n_points] by name.

        Constants that are not searched for keep the values of the start.
        """
        searched = {name: bounds.value(points[:, i]) for i, (name, bounds) in enumerate(self.bounds.items())}
        return {name: searched.get(name, np.full(len(points), value)) for name, value in self.start.items()}

    def over_start(self, points: FloatArray, draws: range) -> FloatArray:
        """Compute the logarithm of each point's cost over that of the start, [n_points, n_draws].

        The ratio of costs stands for that of mean FCTs. All points meet the same network and flows in a draw.

        Args:
            points: points of the search, [n_points, n_searched].
            draws: numbers of the draws.
        """
        constants = self.constants(points)
        tried = {name: np.concatenate([[self.start[name]], column]) for name, column in constants.items()}
        costs = np.stack([self._cost(tried, draw) for draw in draws], axis=1)
        logs: FloatArray = np.log(costs[1:] / costs[0])
        return logs

    def _cost(self, constants: Mapping[str, FloatArray], draw: int) -> FloatArray:
        """Simulate one draw of network and flows; return the cost of each candidate, [n_candidates].

        The cost is the number of unfinished flows summed over the periods, plus `LEFT_PERIODS` for each flow that is
        unfinished at the end, plus 1. The sum is proportional to the mean FCT of flows that finish (Little's law). The
        1 keeps the cost above 0, so that its logarithm exists.
        """
        scenario = self._drawn(draw)
        n, several = len(constants["alike"]), self._families.hosts_per_slot // scenario.n_agents
        limiter = Local(**{name: np.repeat(column, several) for name, column in constants.items()})
        limiter.reset(scenario, derive_seed(self._seed, "tuning_local", "messages", draw))
        racks = networks(self._datapath, n * several)
        seeds = [derive_seed(self._seed, "tuning_local", "flows", draw, i) for i in range(several)]
        flows = [scenario.flows(seed) for seed in seeds]
        try:
            begun = [
                racks.start(row * several + i, scenario, flows[i], self._controller.stack, seeds[i])
                for row in range(n)
                for i in range(several)
            ]
            measured, cost, left = Measurements.of(begun), np.zeros(n), np.zeros(n)
            periods, drain = self._families.epochs, self._families.drain_epochs
            for period in range(periods + drain):
                moved = racks.step(limiter.decide(measured))
                assert isinstance(moved, Measurements)
                measured = moved
                left = measured.active_flows.sum(1).reshape(n, several).sum(1)
                cost += left
                self.rack_periods += n
                if period >= periods and not left.any():
                    break
        finally:
            racks.close()
        costs: FloatArray = cost + LEFT_PERIODS * left + 1.0
        return costs

    def _drawn(self, draw: int) -> Scenario:
        scenario = self._families.draw(derive_seed(self._seed, "tuning_local"), draw, 0)
        return scenario.replace(nic=scenario.nic.replace(knows="backlog")) if self._blind else scenario

    def run(self, rack_periods: int, lists: int) -> tuple[FloatArray, int]:
        """Search until so many periods have been simulated.

        Args:
            rack_periods: number of periods, as `self.rack_periods` counts them.
            lists: number of draws of a network and its flows in a generation.

        Returns:
            The best point, [n_searched], and the number of generations.
        """
        first = np.array([bounds.coordinate(self.start[name]) for name, bounds in self.bounds.items()])
        rng = generator(self._seed, "tuning_local", "points")
        options = {"bounds": [0, 1], "randn": lambda *shape: rng.standard_normal(shape), "seed": np.nan, "verbose": -9}
        search = cma.CMAEvolutionStrategy(first, STEP, options)
        means = [first]
        while self.rack_periods < rack_periods:
            points = np.array(search.ask())
            done = len(means) - 1
            values = self.over_start(points, range(done * lists, (done + 1) * lists)).mean(1)
            search.tell(points, values)
            means.append(search.result.xfavorite)
            print(
                f"generation {done + 1}: {self.rack_periods} rack-periods, step {search.sigma:.3f}, mean FCT "
                f"{np.exp(values.min()):.3f} to {np.exp(values.max()):.3f} of the start's",
                file=sys.stderr,
            )
        later = np.unique(np.linspace((len(means) + 1) // 2, len(means) - 1, LAST).astype(int))
        tried = np.stack([first, *(means[i] for i in later)])
        best: FloatArray = tried[self.over_start(tried, range(10**6, 10**6 + SELECTED)).mean(1).argmin()]
        return best, len(means) - 1

    def judged(self, point: FloatArray) -> tuple[float, float, float]:
        """Compare a point with the start on draws that no search meets.

        Returns:
            The ratio of costs as a geometric mean over draws, and the ends of its 95 % interval.
        """
        return geometric(self.over_start(point[None], range(2 * 10**6, 2 * 10**6 + JUDGED))[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the controller; return the exit status (`ncc.core.options.exit_status`)."""
    return exit_status(lambda: _main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python studies/tuning_local.py", description=__doc__)
    parser.add_argument("--blind", action="store_true", help="for hosts that do not know sizes")
    parser.add_argument("--seed", type=count, default=1, help="of draws and points, from 1")
    parser.add_argument("--rack-periods", type=count, default=4_800_000, help="periods of slots to simulate")
    parser.add_argument("--lists", type=count, default=24, help="lists of flows in a generation")
    parser.add_argument("--epochs", type=count, help="periods in which flows arrive; default: as in training")
    parser.add_argument("--families", default="mixture", help="name in configs/families")
    options = parser.parse_args(arguments)
    typed = shlex.join(["python", "studies/tuning_local.py", *(sys.argv[1:] if arguments is None else arguments)])
    families = load_families(options.families, epochs=options.epochs)
    start = load_controller("local_hold_blind" if options.blind else "local_hold")
    search = Search(start, families, load_datapath("packetsim").load(), options.seed, blind=options.blind)
    point, generations = search.run(options.rack_periods, options.lists)
    spent = search.rack_periods
    ratio, low, high = search.judged(point)
    knows = " for hosts that do not know sizes (scenario.nic.knows=backlog)" if options.blind else ""
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print(f"# Made by `{typed}` (seed {options.seed}): {generations} generations, {spent} rack-periods.")
    print(f"# Mean FCT over {start.name}'s, where the search began, on {JUDGED} other lists of the same families:")
    print(f"# {ratio:.3f} (95 % {low:.3f} to {high:.3f}).")
    print(f"name: local_tuned{'_blind' if options.blind else ''}")
    print(f"summary: local with constants by CMA-ES on the networks that ncc trains on,{knows or ' sizes known'}")
    stack = start.stack
    order = (
        f", order_params: {[list(each) for each in stack.order_params]}".replace("'", "") if stack.order_params else ""
    )
    print(f"stack: {{transport: {stack.transport}, order: {stack.order}{order}}}")
    print("limit:\n  kind: local")
    for name, column in search.constants(point[None]).items():
        print(f"  {name}: {float(column[0]):.4g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
