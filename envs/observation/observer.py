# SPDX-License-Identifier: BSD-3-Clause
"""The observer, which turns measurements into the observations of hosts (wang2021 section 5.3.1.2)."""

from typing import Any

import numpy as np

from ncc.core.errors import DatapathError
from ncc.core.extras import load_extension
from ncc.core.flows import IntArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.envs.observation.columns import SIGNALS, tables_of
from ncc.envs.observation.losses import Losses, reliable
from ncc.envs.observation.spec import ObservationSpec
from ncc.harness.batch import ObsArray


def extension() -> Any:
    """Return the extension module `_observation`; raise as `ncc.core.extras.load_extension`."""
    return load_extension("ncc.envs.observation._observation")


def signals_of(measurement: Measurement | Measurements) -> list[Any]:
    """Return the arrays of the signals that are observed (`SIGNALS`)."""
    columns = measurement.__dict__
    return [columns[name] for name in SIGNALS]


class SharedObserver:
    """An `Observer` that gives each host its own state now, and the state of others some periods ago.

    The others are neighbours and the uplink; their delay is `Scenario.sharing_delay_periods`. Until it has passed, they
    are seen as in the first measurement, when nothing had been sent. Feed every measurement exactly once, in order.

    A row of an observation has the numbers of `ncc.envs.observation.names_of`: 53 for 16 hosts that see each other one
    by one; pooled 16 for any number of hosts, ranked 25, ordered 38.

    After a reset for several racks it takes `Measurements`, and each rack is observed as if by an observer of its own;
    `restart` restarts one of them.
    """

    def __init__(self, spec: ObservationSpec) -> None:
        self.spec = spec

    def reset(self, scenario: Scenario, racks: range | None = None, *, seed: int = 0) -> None:
        """Forget the past and prepare for the hosts of a scenario.

        Args:
            scenario: the scenario of the hosts.
            racks: numbers of the racks that are observed together; arrays then have a leading axis. None: one rack.
            seed: seed of the messages that get lost; with several racks, `restart` takes the seed of each.

        Raises:
            ConfigError: neighbourhoods of different sizes.
        """
        tables, self._racks = tables_of(self.spec, scenario), racks
        self.obs_dim = len(tables["entries"])
        lead = () if racks is None else (len(racks),)
        self._row_shape = (scenario.n_agents, self.obs_dim)
        self._shape = (*lead, *self._row_shape)
        self._made_of = (tables, len(racks or (0,)))
        self._made: Any = None
        self._losses = None if reliable(scenario) else Losses(scenario, lead, seed)
        self._begun = racks is not None

    def observe(self, measurement: Measurement | Measurements) -> ObsArray:
        """Return a new array [n_agents, obs_dim] of float32 in [`LOW`, `HIGH`], or [n_racks, n_agents, obs_dim].

        Raises:
            DatapathError: a measured number is not finite.
        """
        obs: ObsArray = np.empty(self._shape, np.float32)
        arrivals = None if self._losses is None or not self._begun else self._losses.arrivals()
        bad = self._observer().observe(signals_of(measurement), arrivals, obs)
        if bad >= 0:
            raise DatapathError(_blame(measurement, bad, self._racks))
        self._begun = True
        return obs

    def restart(self, row: int, measurement: Measurement, *, seed: int = 0) -> ObsArray:
        """Restart one of several racks with its first measurement; return its observations [n_agents, obs_dim].

        Args:
            row: number of the rack.
            measurement: its first measurement.
            seed: seed of the messages that get lost.

        Raises:
            DatapathError: a measured number is not finite.
        """
        obs: ObsArray = np.empty(self._row_shape, np.float32)
        if not self._observer().begin(row, signals_of(measurement), obs):
            raise DatapathError(_blame(measurement, 0, None))
        if self._losses is not None:
            self._losses.begin(row, seed)
        return obs

    def among(self, begin: int, end: int) -> None:
        """From now on, let `observe_messages` return observations of hosts `begin` to `end` - 1 only."""
        self._observer().among(begin, end)
        self._row_shape = (end - begin, self.obs_dim)

    def observe_messages(
        self, measurement: Measurement, before: Measurement | None, *, ages: IntArray, period: int
    ) -> ObsArray:
        """Return a new array [n_observed, obs_dim] like `observe`, from messages that agents on hosts exchange.

        Args:
            measurement: this period; only the rows of the observed hosts (`among`) are valid.
            before: the period before, with the messages that arrived since the last call; None: no change.
            ages: extra age in periods of the states of hosts and uplinks, [n_agents + n_areas].
            period: number of the period, the same for all hosts; hosts with equal flows take turns by it.

        Raises:
            DatapathError: a measured number is not finite.
        """
        obs: ObsArray = np.empty(self._row_shape, np.float32)
        if before is not None and not self._observer().correct(signals_of(before)):
            raise DatapathError(_blame(before, 0, None))
        if not self._observer().observe_messages(signals_of(measurement), ages, period, obs):
            raise DatapathError(_blame(measurement, 0, None))
        return obs

    def _observer(self) -> Any:
        """Return the observer in C++, made when it is first needed: until then this object can be pickled."""
        if self._made is None:
            self._made = extension().Observer(*self._made_of)
        return self._made


def _blame(m: Measurement | Measurements, bad: int, racks: range | None) -> str:
    """Return a sentence that names the numbers that are not finite."""
    one, where = (m[bad], f"rack {racks[bad]}: ") if isinstance(m, Measurements) and racks is not None else (m, "")
    # A rate limit may be inf, but not NaN.
    wrong = [name for name in SIGNALS if name != "rate_limit_bps" and not np.isfinite(getattr(one, name)).all()]
    names = ", ".join(wrong or ["rate_limit_bps"])
    return f"{where}epoch {one.epoch}: the datapath measured a number that is not finite ({names})"
