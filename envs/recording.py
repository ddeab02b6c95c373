# SPDX-License-Identifier: BSD-3-Clause
"""What an agent would have seen, done and been paid in a run that somebody else drove: for learning offline."""

from dataclasses import dataclass

import numpy as np

from ncc.core.errors import ConfigError
from ncc.core.flows import FloatArray
from ncc.core.measurement import Measurement, Measurements
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.envs.action import NO_LIMIT_FROM, RateTable
from ncc.envs.expert import TransportExpert
from ncc.envs.observation import SharedObserver
from ncc.envs.scales import scales_of
from ncc.envs.spec import EnvSpec, EnvView
from ncc.harness.batch import ActionArray, ObsArray
from ncc.harness.controller import NoLimit
from ncc.harness.episodes import Episode, EpisodeInfo
from ncc.harness.run import Run, limiter_seed


@dataclass(frozen=True)
class Recording:
    """Makes a recorder per run; picklable, so that workers make their own."""

    view: EnvView

    def __call__(self) -> "Recorder":
        return Recorder(self.view)

    def check(self, scenario: Scenario) -> None:
        """`ConfigError` if the scenario's hosts cannot be seen so, or actions are no indices."""
        RateTable(self.view.action, self.view.observation).reset(scenario)
        SharedObserver(self.view.observation).reset(scenario)


class Recorder:
    """Keeps what was measured and decided in a run, and works out the rest once it is over.

    An episode is as long as the environment's: until every flow of a finite list is delivered (*terminated*), or until
    the scenario's `duration_s` (*truncated*), drain apart. A run of random arrivals may end before, with the last
    delivery; it is truncated there, for an agent would have gone on.

    The action of an epoch is the index that comes nearest to the limit that was decided for it. Of a controller that
    limits nobody it is nearest to what the host sent in that epoch, as `TransportExpert` has it: none where it sent
    nothing, had nothing left to send, or filled `NO_LIMIT_FROM` of its link. Observations then show what that
    controller's hosts see: no limit.
    """

    def __init__(self, view: EnvView) -> None:
        self._view = view
        self._measured: list[Measurement] = []
        self._limits: list[FloatArray] = []

    def watch(self, measurement: Measurement, limits_bps: FloatArray | None) -> None:
        """Take the start of a run, and then each epoch with the limits [n_agents] that were decided for it."""
        self._measured.append(measurement)
        if limits_bps is not None:
            self._limits.append(limits_bps.copy())  # a limiter may use its array again

    def episode(self, run: Run) -> Episode:
        """What the run that was watched is to an agent.

        Raises:
            ConfigError: no epoch was watched, or the scenario's hosts cannot be seen so.
        """
        if not self._limits:
            raise ConfigError(f"the run of {run.label} has no epoch to record; raise duration_s")
        scenario, view = run.scenario, self._view
        epochs, terminated = self._length(run)
        measured = self._measured[: epochs + 1]
        observer, reward = SharedObserver(view.observation), view.reward.build()
        # As `PolicyLimiter` seeds it: where messages get lost, they are those that a policy here would have missed.
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
        """Epochs of the episode, and whether nothing follows them."""
        spec, last_epoch_s = EnvSpec(scenario=run.scenario), run.scenario.duration_s - run.scenario.period_s / 2
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
            follow = TransportExpert().build()
            limits = np.stack([follow.decide(m) for m in measured[1:]])
            limits[limits >= NO_LIMIT_FROM * scales_of(run.scenario).link_rate_bps] = np.inf
        else:
            limits = np.stack(self._limits[: len(measured) - 1])
        return table.nearest(limits, obs[:-1])
