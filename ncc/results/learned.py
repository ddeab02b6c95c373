# SPDX-License-Identifier: BSD-3-Clause
"""Analysis of a trained policy: the rate that it sets for an observation.

Everything is computed at observations that hosts made in a run. The rate of a policy that chooses among several is
their geometric mean, weighted with the policy's probabilities; hosts themselves take the most likely one. No limit
counts as the host's link rate.
"""

import re
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ncc.agents.policy import FloatArray32, MlpPolicy, load_policy
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.value import from_dict
from ncc.envs.action import ActionSpec, RateScale, RateTable
from ncc.envs.observation import ObservationSpec, SharedObserver, entry_names, fair_share_at
from ncc.envs.scales import scales_of
from ncc.harness.batch import ObsArray
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.run import eval_flow_seed, limiter_seed, run_once
from ncc.run.compose import DatapathSpec
from ncc.run.limiters import LimiterFactory

_EACH = re.compile(r"^neighbour \d+ ")


@dataclass(frozen=True)
class Learned:
    """A trained policy, with the specs of what it observes and how it acts."""

    policy: MlpPolicy
    observation: ObservationSpec
    action: ActionSpec
    label: str
    """Name of the policy's controller, for titles."""
    network: Scenario | None = None
    """Network of the hosts. Only a policy that multiplies a formula needs it: the formula depends on the link rates."""

    def on(self, network: Scenario) -> "Learned":
        """Copy the policy with the network that its hosts are in."""
        return replace(self, network=network)

    @cached_property
    def entries(self) -> dict[str, tuple[int, ...]]:
        """Positions in an observation by entry name; neighbours that are observed one by one share their entries."""
        positions: dict[str, list[int]] = {}
        for at, name in enumerate(entry_names(self.observation, self.policy.obs_dim)):
            positions.setdefault(_EACH.sub("neighbours' ", name), []).append(at)
        return {name: tuple(places) for name, places in positions.items()}

    def at(self, entry: str) -> list[int]:
        """Positions of an entry in an observation; `UnknownNameError` if there is no such entry."""
        if entry not in self.entries:
            raise UnknownNameError("entry of the observation", entry, self.entries)
        return list(self.entries[entry])

    def log_rate(self, obs: ObsArray, network_obs: ObsArray | None = None) -> FloatArray:
        """Expected logarithm [...] of the rate, as a fraction of the link's, at observations [..., obs_dim].

        Args:
            network_obs: observations that the policy's neural network sees instead; the formula and the guard still see
                `obs`. None: all see `obs`.

        Raises:
            ConfigError: the rates do not follow from observations alone, or a formula is multiplied and `network` is
                None or has hosts with unequal links or uplinks.
        """
        logits = self.policy.logits((obs if network_obs is None else network_obs).astype(np.float32))
        weights = np.exp((logits - logits.max(axis=-1, keepdims=True)).astype(np.float64))
        mean: FloatArray = (weights * np.log(self._rates(obs, logits))).sum(axis=-1) / weights.sum(axis=-1)
        return mean

    def chosen(self, obs: ObsArray) -> FloatArray:
        """Rate [...] that hosts take at observations [..., obs_dim], as a fraction of the link's rate.

        Raises:
            ConfigError: see `log_rate`.
        """
        logits = self.policy.logits(obs.astype(np.float32))
        likeliest = np.argmax(logits, axis=-1)
        rates: FloatArray = np.take_along_axis(self._rates(obs, logits), likeliest[..., None], axis=-1)[..., 0]
        return rates

    def _rates(self, obs: ObsArray, logits: FloatArray32) -> FloatArray:
        """Rates [..., n_actions] of all actions, as fractions of the link's rate, at most 1."""
        if self.action.kind == "residual":
            return self._multiplied(obs, np.tanh(logits))
        table = RateTable(self.action, self.observation)
        if self.action.kind == "shares" and fair_share_at(self.observation) is None:
            raise ConfigError(
                f"{self.label} decides on shares of what it does not observe (its neighbours are hidden), so its rates "
                "cannot be derived from observations alone; look at a policy that observes them"
            )
        return np.clip(table.over_link(obs), 1e-6, 1.0)

    def _multiplied(self, obs: ObsArray, given: FloatArray32) -> FloatArray:
        """Rates [..., 1] as fractions of the link's, at most 1: a formula changed by `given` [..., 1] in [-1, 1]."""
        if self.network is None:
            raise ConfigError(f"{self.label} multiplies a formula, which takes the network's rates: name it by on()")
        scales = scales_of(self.network)
        of_uplink = scales.uplink_capacity_bps[scales.area] / scales.link_rate_bps
        if np.ptp(of_uplink):
            raise ConfigError(f"hosts of {self.network.name!r} have unequal links or uplinks; take one of equals")
        limits = RateScale(self.action, self.observation)
        limits.reset(self.network)
        limits.among(0, 1)
        limits_bps = limits.rates_bps(given.reshape(-1, 1), obs.reshape(-1, 1, obs.shape[-1]))
        rates: FloatArray = np.minimum(limits_bps / scales.link_rate_bps[0], 1.0).reshape(given.shape)
        return rates


def load_learned(controller: Controller, run: Path | None = None) -> tuple[Controller, Learned]:
    """Load the policy of a learned controller.

    Args:
        run: run folder of the policy; None: the policy in the package.

    Returns:
        The controller with the host stack that the policy was trained on, and the policy.

    Raises:
        ConfigError: the controller has no policy, or there is none in the package.
        ResultError: the policy is missing, damaged, or lacks its observation and action.
    """
    if not isinstance(controller.limit, PolicyLimit):
        raise ConfigError(f"controller {controller.name!r} has no policy to look into; name a learned one, such as ncc")
    factory = LimiterFactory(run)
    path = factory.path(controller.name, controller.limit)
    policy, meta = load_policy(path)
    try:
        seen = from_dict(ObservationSpec, meta["observation"], "observation")
        acts = from_dict(ActionSpec, meta["action"], "action")
        entry_names(seen, policy.obs_dim)
    except (KeyError, ConfigError) as error:
        raise ResultError(f"{path} does not say how it observes and acts ({error}); train again") from None
    return factory.resolved(controller), Learned(policy, seen, acts, controller.name)


def observed(
    learned: Learned,
    controller: Controller,
    scenario: Scenario,
    datapath: DatapathSpec,
    *,
    seed: int,
    run: Path | None = None,
) -> ObsArray:
    """Run an evaluation's flows; return the observations [n, obs_dim] of busy hosts, which have something to send.

    Args:
        learned: the policy whose way of observing is used.
        controller: controller of the run, as `load_learned` returns it.
        seed: seed of the flows.
        run: run folder of the controller's policy; None: the policy in the package.

    Raises:
        ConfigError: the policy does not fit the scenario, or no host was ever busy.
    """
    observer, rows = SharedObserver(learned.observation), []
    # Seeded as in `PolicyLimiter`, so that this observer loses the same messages as the policy did.
    observer.reset(scenario, seed=derive_seed(limiter_seed(seed), "sharing"))

    def watch(measurement: Measurement, _: FloatArray | None) -> None:
        rows.append(observer.observe(measurement))

    limiter = LimiterFactory(run)(controller, scenario)
    with closing(datapath.load()()) as simulator:
        run_once(simulator, scenario, controller, limiter, seed, flow_seed=eval_flow_seed(seed), watch=watch)
    obs = np.concatenate(rows)
    busy: ObsArray = obs[obs[:, learned.at("queued_flows")[0]] > 0]
    if len(busy) == 0:
        raise ConfigError(f"no host of {scenario.name!r} ever has something to send; raise duration_s or the load")
    return busy
