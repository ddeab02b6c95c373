# SPDX-License-Identifier: BSD-3-Clause
"""What a trained policy does with what it observes: rates swept along one observed number, and what matters to it.

Everything is read off the policy at observations that hosts really made in a run. It speaks of the rate that the
policy leans to: the geometric mean of its rates by its own probabilities, of which hosts take the likeliest. No limit
counts as the host's link rate.
"""

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ncc.agents.policy import MlpPolicy, load_policy
from ncc.compose import DatapathSpec, LimiterFactory
from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.flows import FloatArray
from ncc.core.scenario import Scenario
from ncc.core.value import from_dict
from ncc.deployed import SUFFIX, load_policy_file
from ncc.envs.action import ActionSpec
from ncc.envs.entries import action_table, entry_names
from ncc.envs.observation import HIGH, LOW, OWN, ObservationSpec, fair_share_at
from ncc.envs.recording import Recording
from ncc.envs.spec import EnvView
from ncc.harness.batch import ObsArray
from ncc.harness.controller import Controller, PolicyLimit
from ncc.harness.run import eval_flow_seed, run_once

STEP = 0.01
"""Half the distance of two observations whose rates are compared: far below what tells one state from another."""
MET = 12
"""Groups of equally many observations in which what really happened is averaged."""
_EACH = re.compile(r"^neighbour \d+ ")


@dataclass(frozen=True)
class Learned:
    """A trained policy, and how it sees and acts."""

    policy: MlpPolicy
    observation: ObservationSpec
    action: ActionSpec
    label: str
    """Where it comes from, for titles."""

    @cached_property
    def entries(self) -> dict[str, tuple[int, ...]]:
        """By name, where that number stands in an observation; of neighbours seen one by one, all of them together."""
        found: dict[str, list[int]] = {}
        for at, name in enumerate(entry_names(self.observation, self.policy.obs_dim)):
            found.setdefault(_EACH.sub("neighbours' ", name), []).append(at)
        return {name: tuple(places) for name, places in found.items()}

    def at(self, entry: str) -> list[int]:
        """Where an entry stands; `UnknownNameError` lists what there is."""
        if entry not in self.entries:
            raise UnknownNameError("entry of the observation", entry, self.entries)
        return list(self.entries[entry])

    def log_rate(self, obs: ObsArray) -> FloatArray:
        """[...] expected logarithm of the rate over the link's, at observations [..., obs_dim]."""
        logits = self.policy.logits(obs.astype(np.float32)).astype(np.float64)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        mean: FloatArray = (weights * np.log(self._rates(obs))).sum(axis=-1) / weights.sum(axis=-1)
        return mean

    def chosen(self, obs: ObsArray) -> FloatArray:
        """[...] the rate over the link's that hosts take."""
        likeliest = np.argmax(self.policy.logits(obs.astype(np.float32)), axis=-1)
        rates: FloatArray = np.take_along_axis(self._rates(obs), likeliest[..., None], axis=-1)[..., 0]
        return rates

    def _rates(self, obs: ObsArray) -> FloatArray:
        """[..., n_actions] over the link's rate, at most 1."""
        table = action_table(self.action)
        multiples = np.array([np.inf if multiple is None else multiple for multiple in table.multiples])
        observed = fair_share_at(self.observation) if table.unit == "fair share" else None
        if table.unit == "fair share" and observed is None:
            raise ConfigError(
                f"{self.label} decides on shares of what it does not observe (its neighbours are hidden), so its rates "
                "are not told from observations alone; look at a policy that observes them"
            )
        unit = np.ones(obs.shape[:-1]) if observed is None else np.maximum(obs[..., observed].astype(np.float64), 1e-9)
        rates: FloatArray = np.clip(unit[..., None] * multiples, max(table.floor_frac, 1e-6), 1.0)
        return rates


def load_learned(controller: Controller, run: Path | None = None) -> tuple[Controller, Learned]:
    """The policy of a learned controller, and the controller on the stack that it was trained on.

    Args:
        run: the run folder that made it; None: what came with the package.

    Raises:
        ConfigError: the controller has no policy, or there is none in the package.
        ResultError: missing, damaged, or it does not say how it observes and acts.
    """
    if not isinstance(controller.limit, PolicyLimit):
        raise ConfigError(f"controller {controller.name!r} has no policy to look into; name a learned one, such as ncc")
    factory = LimiterFactory(run)
    path = factory.path(controller.name, controller.limit)
    meta: Mapping[str, Any]
    if path.suffix == SUFFIX:
        found = load_policy_file(path)
        policy, meta = found.policy, found.header.to_dict()
    else:
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
    """[n, obs_dim] what busy hosts (those with something to send) observe in a run of an evaluation's flows.

    Args:
        controller: who drives the run, as `load_learned` gives it back; hosts observe what `learned` would.
        run: the run folder of its policy; None: the package's.

    Raises:
        ConfigError: the policy does not fit the scenario, or no host was ever busy.
    """
    recorder = Recording(EnvView(observation=learned.observation, action=learned.action))()
    limiter = LimiterFactory(run)(controller, scenario)
    with closing(datapath.load()()) as simulator:
        done = run_once(
            simulator, scenario, controller, limiter, seed, flow_seed=eval_flow_seed(seed), watch=recorder.watch
        )
    obs = recorder.episode(done).obs.reshape(-1, learned.policy.obs_dim)
    busy: ObsArray = obs[obs[:, learned.at("queued_flows")[0]] > 0]
    if len(busy) == 0:
        raise ConfigError(f"no host of {scenario.name!r} ever has something to send; raise duration_s or the load")
    return busy


@dataclass(frozen=True)
class Response:
    """Rates, over the link's, while one observed number is set to a value and all others stay as they were observed."""

    label: str
    """Of the policy."""
    entry: str
    words: str
    """What the entry is, with its unit,"""
    places: tuple[tuple[float, str], ...]
    """and where round values in that unit stand; none: as the number says."""
    values: FloatArray
    """[n] what it is set to, between the 1st and the 99th percentile of what was observed."""
    mean: FloatArray
    """[n] geometric, over observations,"""
    low: FloatArray
    """[n] their 25th"""
    high: FloatArray
    """[n] and 75th percentile."""
    met_values: FloatArray
    """[groups] where the number really stood, the mean of each group,"""
    met: FloatArray
    """[groups] and the geometric mean of the rate there, all numbers as they were."""


def response(learned: Learned, obs: ObsArray, entry: str, *, points: int = 41) -> Response:
    """How the rate goes with one entry, at observations [n, obs_dim].

    Raises:
        UnknownNameError: the policy observes no such entry.
        ConfigError: the entry is the same in all observations.
    """
    at = learned.at(entry)
    stood = obs[:, at].mean(axis=1)
    low, high = np.percentile(stood, [1, 99])
    if not high > low:
        raise ConfigError(f"entry {entry!r} is {low:.3g} in all of these observations, so nothing goes with it")
    values = np.linspace(low, high, points)
    curves = []
    for value in values:
        moved = obs.copy()
        moved[:, at] = value
        log = learned.log_rate(moved)
        curves.append(np.exp([log.mean(), *np.percentile(log, [25, 75])]))
    means, lows, highs = np.array(curves).T
    order = np.argsort(stood, kind="stable")
    groups = [group for group in np.array_split(order, MET) if len(group)]
    log = learned.log_rate(obs)
    words, places = _meaning(learned.observation, entry)
    return Response(
        label=learned.label,
        entry=entry,
        words=words,
        places=places,
        values=values,
        mean=means,
        low=lows,
        high=highs,
        met_values=np.array([stood[group].mean() for group in groups]),
        met=np.array([np.exp(log[group].mean()) for group in groups]),
    )


@dataclass(frozen=True)
class Saliency:
    """What each entry does to the rate, over observations."""

    label: str
    """Of the policy."""
    names: tuple[str, ...]
    """Of the entries."""
    slope: FloatArray
    """[entries, n] of the logarithm of the rate, per unit of the entry."""
    spread: FloatArray
    """[entries] standard deviation of the entry over the observations."""

    @property
    def effect(self) -> FloatArray:
        """[entries] mean size of the slope times spread: what a usual change of the entry does to the log rate."""
        effects: FloatArray = np.abs(self.slope).mean(axis=1) * self.spread
        return effects

    @property
    def ranked(self) -> tuple[str, ...]:
        """Names of the entries that were not the same throughout, those of the largest effect first."""
        return tuple(self.names[i] for i in np.argsort(-self.effect, kind="stable") if self.spread[i] > 0)


def saliency(learned: Learned, obs: ObsArray) -> Saliency:
    """Slopes of the expected log rate along every entry, by central differences, at observations [n, obs_dim].

    Shares of what is observed count as well: where rates are multiples of the fair share, moving that moves them all.
    """
    slopes, spreads = [], []
    for places in learned.entries.values():
        at = list(places)
        above, below = obs.copy(), obs.copy()
        above[:, at] = np.minimum(above[:, at] + STEP, HIGH)
        below[:, at] = np.maximum(below[:, at] - STEP, LOW)
        apart = (above[:, at] - below[:, at]).mean(axis=1)
        slopes.append((learned.log_rate(above) - learned.log_rate(below)) / apart)
        spreads.append(obs[:, at].mean(axis=1).std())
    return Saliency(learned.label, tuple(learned.entries), np.array(slopes), np.array(spreads))


def whose(entry: str) -> str:
    """Of whom an entry of the observation tells: `own`, `port` (the shared one), `neighbours` or `network`."""
    if entry in (*OWN, "next bytes", "next bytes before", "queued flows before"):
        return "own"
    if entry.startswith("upper "):
        return "port"
    return "network" if entry in ("static share", "period", "buffer") else "neighbours"


def _meaning(spec: ObservationSpec, entry: str) -> tuple[str, tuple[tuple[float, str], ...]]:
    """`Response.words` and `places`, as `ObservationSpec` has them."""
    name = entry.removeprefix("neighbours' ")
    theirs = "neighbours' " if entry != name else ""
    logarithmic = {
        "rtt": ("RTT above the path's own [in units of it]", spec.rtt_scale),
        "wait": ("waiting of queued flows, summed [periods]", spec.wait_scale),
        "mean_wait": ("mean waiting of queued flows [periods]", spec.wait_scale),
        "mean_wait mean": ("neighbours' waiting, their mean [periods]", spec.wait_scale),
        "mean_wait max": ("neighbours' waiting, the longest [periods]", spec.wait_scale),
        "queued_bytes": ("own backlog [periods at link rate]", spec.backlog_scale),
        "queued_bytes mean": ("neighbours' backlog, their mean [periods at link rate]", spec.backlog_scale),
        "queued_bytes max": ("neighbours' backlog, the largest [periods at link rate]", spec.backlog_scale),
        "next bytes": ("left of own shortest flow [periods at link rate]", spec.backlog_scale),
        "queued_flows": ("own flows with something to send", spec.flows_scale),
    }
    if name in logarithmic:
        words, scale = logarithmic[name]
        if theirs and name == "queued_bytes":
            words = "backlog [periods at link rate]"
        rounds = (0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
        at = tuple((float(np.log1p(value) / np.log1p(scale)), f"{value:g}") for value in rounds)
        return theirs + words, at
    linear = {
        "rate_limit": "own rate limit [share of link rate]",
        "goodput": "own goodput [share of link rate]",
        "upper throughput": "the shared port's throughput [share of line rate]",
        "upper queue": "the shared port's queue [logarithmic; 1: buffer full]",
        "room after shorter": "what neighbours with shorter flows leave of the port [share of link rate]",
        "room after much shorter": "what neighbours with much shorter flows leave of the port [share of link rate]",
        "share among alike": "share of what they leave among hosts with flows alike [share of link rate]",
        "throughput": "throughput [share of link rate]",
        "throughput mean": "neighbours' throughput, their mean [share of link rate]",
        "throughput max": "neighbours' throughput, the largest [share of link rate]",
        "busy share": "neighbours with something to send [share of them]",
        "fair share": "fair share of the shared port [share of link rate]",
    }
    return theirs + linear.get(name, name), ()
