# SPDX-License-Identifier: BSD-3-Clause
"""Recording of a run by another controller as an agent's observations, actions and rewards, for offline learning."""

from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.action import NO_LIMIT_FROM, RateTable
from ncc.envs.observation import SharedObserver
from ncc.envs.reward import Reward
from ncc.envs.scales import scales_of
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.controller import NoLimit
from ncc.harness.episodes import Episode, EpisodeInfo
from ncc.harness.run import Run, limiter_seed


@dataclass(frozen=True)
class Recording:
    """Picklable factory of recorders, one per run."""

    view: EnvView

    def __call__(self) -> "Recorder":
        return Recorder(self.view)

    def check(self, scenario: Scenario) -> None:
        """Raise `ConfigError` if the view does not fit the scenario's hosts, or actions are not indices of rates."""
        EnvSpec(scenario=scenario, view=self.view)
        RateTable(self.view.action, self.view.observation).reset(scenario)
        SharedObserver(self.view.observation).reset(scenario)


class Recorder:
    """A recorder that keeps the measurements and decisions of a run, and computes the episode after its end.

    An episode is as long as in the environment: until every flow of a finite list is delivered (*terminated*), or until
    the scenario's `duration_s`, without drain (*truncated*). A run with random arrivals may end earlier, with the last
    delivery; it is truncated there, because an agent would have gone on.

    The action of an epoch is the index nearest to the decided limit. For a controller without limits it is the index
    nearest to the host's throughput in that epoch. It is the index of no limit if the host sent nothing, had nothing
    left to send, or filled `NO_LIMIT_FROM` of its link. Observations of such a controller show no limits.
    """

    def __init__(self, view: EnvView) -> None:
        self._view = view
        self._measured: list[Measurement] = []
        self._limits: list[FloatArray] = []

    def watch(self, measurement: Measurement, limits_bps: FloatArray | None) -> None:
        """Take the start of a run, and then each epoch with its decided limits [n_agents]."""
        self._measured.append(measurement)
        if limits_bps is not None:
            self._limits.append(limits_bps.copy())  # a limiter may use its array again

    def episode(self, run: Run) -> Episode:
        """Return the watched run as an agent's episode.

        Raises:
            ConfigError: no epoch was watched, or the view does not fit the scenario's hosts.
        """
        if not self._limits:
            raise ConfigError(f"the run of {run.label} has no epoch to record; raise duration_s")
        scenario, view = run.scenario, self._view
        epochs, terminated = self._length(run)
        measured = self._measured[: epochs + 1]
        observer, reward = SharedObserver(view.observation), Reward(view.reward)
        # Seeded as in `PolicyLimiter`, so that the lost messages are those that a policy would have missed.
        observer.reset(scenario, seed=derive_seed(limiter_seed(run.seed), "sharing"))
        reward.reset(scenario)
        obs = np.stack([observer.observe(m) for m in measured])
        return Episode(
            info=EpisodeInfo(
                observation=view.observation.to_dict(),
                action=view.action.to_dict(),
                reward=view.reward.to_dict(),
                scenario=scenario.name,
                scenario_digest=scenario.digest(),
                datapath=run.datapath,
                controller=run.controller.name,
                seed=run.seed,
                flow_seed=str(run.flow_seed),
                obs_dim=obs.shape[-1],
                n_actions=view.action.n_actions,
                hosts=scales_of(scenario).names,
                problems=run.problems,
            ),
            epoch=np.array([m.epoch for m in measured]),
            time_s=np.array([m.time_s for m in measured]),
            obs=obs,
            actions=self._actions(run, measured, obs),
            reward=reward.reward(Measurements.of(measured[1:])),
            terminated=terminated,
        )

    def _length(self, run: Run) -> tuple[int, bool]:
        """Return the number of epochs of the episode, and True if it is terminated."""
        spec, last_epoch_s = (
            EnvSpec(scenario=run.scenario, view=self._view),
            run.scenario.duration_s - run.scenario.period_s / 2,
        )
        for number, m in enumerate(self._measured[1:], start=1):
            if spec.finite and m.flows_finished == len(run.flows):
                return number, True
            if m.time_s >= last_epoch_s:
                return number, False
        return len(self._limits), False

    def _actions(self, run: Run, measured: list[Measurement], obs: ObsArray) -> ActionArray:
        table = RateTable(self._view.action, self._view.observation)
        table.reset(run.scenario)
        if isinstance(run.controller.limit, NoLimit):
            sent = np.stack([m.throughput_bps for m in measured[1:]])
            left = np.stack([m.queued_flows for m in measured[1:]])
            limits = np.where((sent > 0) & (left > 0), sent, np.inf)
            limits[limits >= NO_LIMIT_FROM * scales_of(run.scenario).link_rate_bps] = np.inf
        else:
            limits = np.stack(self._limits[: len(measured) - 1])
        return table.nearest(limits, obs[:-1])
