# SPDX-License-Identifier: BSD-3-Clause
"""The search for the constants of `local_tuned` and `local_tuned_blind` (`ncc.harness.local`) by CMA-ES.

``python -m ncc.study.tuning_local`` prints the controller's YAML with what the search was. Every generation draws
networks from the families that NCC trains on (recipe ncc), `LEFT_OUT` apart. All candidates meet the same flows on
them, and so does `local_hold`, where the search begins. A candidate's value is the geometric mean, over the networks,
of its mean FCT over that of `local_hold`. The result is judged on draws that the search has not met.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurements
from ncc.core.options import Parser, exit_status
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed, generator
from ncc.envs.families import Families, families_from
from ncc.harness.controller import Controller, LocalLimit
from ncc.harness.local import Local
from ncc.harness.networks import DatapathFactory, networks
from ncc.run.compose import composed, load_datapath
from ncc.run.controllers import load_controller
from ncc.study.cmaes import CmaEs


@dataclass(frozen=True)
class Bounds:
    """Least and most of a constant, and the scale on which the search moves."""

    low: float
    high: float
    log: bool = False

    def coordinate(self, value: float) -> float:
        """The place of a value in [0, 1]."""
        if self.log:
            return float(np.log(value / self.low) / np.log(self.high / self.low))
        return (value - self.low) / (self.high - self.low)

    def value(self, coordinate: FloatArray) -> FloatArray:
        """Values at coordinates; those outside [0, 1] count as its ends."""
        x = np.clip(coordinate, 0, 1)
        found: FloatArray = (
            self.low * (self.high / self.low) ** x if self.log else self.low + x * (self.high - self.low)
        )
        return found


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
"""The constants that are searched for by sizes; without sizes, `attained_frac` too."""
ATTAINED = {"attained_frac": Bounds(0, 4)}
STEP = 0.15
DRAIN_FRAC, LEFT_PERIODS = 4.0, 1000
"""Longest wait for the last flows, of an episode's length; periods that a flow left over then counts besides."""
LEFT_OUT = "many_hosts"
"""A family that would take half of the time and on which no constant changes the mean FCT by more than 1 %."""
JUDGED = 96
"""Networks on which the result is judged."""


class Search:
    """Candidates on the same draws.

    Args:
        start: the controller whose limit the search begins with.
        families: networks and flows.
        datapath: simulator of the networks.
        seed: of all draws.
        blind: hosts know backlogs in place of sizes.
    """

    def __init__(
        self, start: Controller, families: Families, datapath: DatapathFactory, seed: int, *, blind: bool
    ) -> None:
        if not isinstance(start.limit, LocalLimit):
            raise ConfigError(f"a search begins with a controller whose limit is of kind local, got {start.name}")
        self._controller, self._families, self._datapath = start, families, datapath
        self._seed, self._blind = seed, blind
        self.start: dict[str, float] = {n: v for n, v in start.limit.to_dict().items() if n != "kind"}
        self.bounds = {**SEARCHED, **(ATTAINED if blind else {})}
        self.rack_periods = 0
        """Periods that racks have been simulated for."""

    def constants(self, points: FloatArray) -> dict[str, FloatArray]:
        """Constants [n_points] of points [n_points, n_searched] of the unit cube."""
        found = {name: bounds.value(points[:, i]) for i, (name, bounds) in enumerate(self.bounds.items())}
        return {name: found.get(name, np.full(len(points), value)) for name, value in self.start.items()}

    def over_start(self, points: FloatArray, draws: range) -> FloatArray:
        """Log of the mean FCT over that of the start, [n_points, n_draws]; draw i is the same for all."""
        made = self.constants(points)
        tried = {name: np.concatenate([[self.start[name]], column]) for name, column in made.items()}
        costs = np.stack([self._cost(tried, draw) for draw in draws], axis=1)
        found: FloatArray = np.log(costs[1:] / costs[0])
        return found

    def _cost(self, constants: Mapping[str, FloatArray], draw: int) -> FloatArray:
        """Flows that are not finished, summed over time: their mean FCT but for a factor (Little's law)."""
        scenario = self._drawn(draw)
        flow_seed = derive_seed(self._seed, "tuning_local", "flows", draw)
        flows, n = scenario.flows(flow_seed), len(constants["alike"])
        limiter = Local(**constants)
        limiter.reset(scenario, flow_seed)
        racks = networks(self._datapath, n)
        try:
            begun = [racks.start(row, scenario, flows, self._controller.stack, flow_seed) for row in range(n)]
            measured, cost, left = Measurements.of(begun), np.zeros(n), np.zeros(n)
            periods = round(scenario.duration_s / scenario.period_s)
            for period in range(int(periods * (1 + DRAIN_FRAC))):
                moved = racks.step(limiter.decide(measured))
                assert isinstance(moved, Measurements)
                measured = moved
                left = measured.active_flows.sum(1)
                cost += left
                self.rack_periods += n
                if period >= periods and not left.any():
                    break
        finally:
            racks.close()
        found: FloatArray = cost + LEFT_PERIODS * left + 1.0
        return found

    def _drawn(self, draw: int) -> Scenario:
        # Episode 1: some families are drawn from the second on.
        scenario = self._families.draw(self._seed, draw, 1)
        return scenario.replace(nic=scenario.nic.replace(knows="backlog")) if self._blind else scenario

    def run(self, rack_periods: int, per_generation: int) -> tuple[FloatArray, int]:
        """Search until so many periods have been simulated; return the last mean [n_searched] and the generations."""
        first = np.array([bounds.coordinate(self.start[name]) for name, bounds in self.bounds.items()])
        search = CmaEs(first, STEP, generator(self._seed, "tuning_local", "points"))
        generations = 0
        while self.rack_periods < rack_periods:
            points = search.ask()
            draws = range(generations * per_generation, (generations + 1) * per_generation)
            outside = ((points - np.clip(points, 0, 1)) ** 2).sum(1)
            values = self.over_start(points, draws).mean(1)
            search.tell(points, values + outside)
            generations += 1
            print(
                f"generation {generations}: {self.rack_periods} rack-periods, step {search.step:.3f}, mean FCT "
                f"{np.exp(values.min()):.3f} to {np.exp(values.max()):.3f} of the start's",
                file=sys.stderr,
            )
        return np.clip(search.mean, 0, 1), generations

    def judged(self, point: FloatArray) -> tuple[float, float, float]:
        """Ratio of mean FCTs on draws that no search meets, and its 95 % interval over them (bootstrap)."""
        logs = self.over_start(point[None], range(10**6, 10**6 + JUDGED))[0]
        drawn = generator(self._seed, "tuning_local", "judged").integers(0, len(logs), (4000, len(logs)))
        low, high = np.exp(np.percentile(logs[drawn].mean(1), [2.5, 97.5]))
        return float(np.exp(logs.mean())), float(low), float(high)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the controller; exit status 2 for unusable settings."""
    return exit_status(lambda: _main(arguments))


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return value


def _main(arguments: Sequence[str] | None) -> int:
    parser = Parser(prog="python -m ncc.study.tuning_local", description=__doc__)
    parser.add_argument("--blind", action="store_true", help="for hosts that do not know sizes")
    parser.add_argument("--seed", type=_count, default=1, help="of draws and points, from 1")
    parser.add_argument("--rack-periods", type=_count, default=7_000_000, help="periods of racks to simulate")
    parser.add_argument("--networks", type=_count, default=10, help="drawn for each generation")
    parser.add_argument("--epochs", type=_count, default=600, help="periods of an episode")
    options = parser.parse_args(arguments)
    typed = shlex.join(["python", "-m", "ncc.study.tuning_local", *(sys.argv[1:] if arguments is None else arguments)])
    families = families_from(composed("train", ["experiment=ncc"])["families"])
    families = families.replace(
        epochs=options.epochs, of={name: each for name, each in families.of.items() if name != LEFT_OUT}
    )
    start = load_controller("local_hold_blind" if options.blind else "local_hold")
    search = Search(start, families, load_datapath("packetsim").load(), options.seed, blind=options.blind)
    point, generations = search.run(options.rack_periods, options.networks)
    spent = search.rack_periods
    ratio, low, high = search.judged(point)
    knows = " for hosts that do not know sizes (scenario.nic.knows=backlog)" if options.blind else ""
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print(f"# Made by `{typed}` (seed {options.seed}): {generations} generations, {spent} rack-periods.")
    print(
        f"# Mean FCT over {start.name}'s, where the search began, on {JUDGED} networks of the same families with other"
    )
    print(f"# flows: {ratio:.3f} (95 % {low:.3f} to {high:.3f}).")
    print(f"name: local_tuned{'_blind' if options.blind else ''}")
    print(f"summary: local with constants by CMA-ES on the networks that NCC trains on,{knows or ' sizes known'}")
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
