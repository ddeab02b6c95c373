# SPDX-License-Identifier: BSD-3-Clause
"""An environment as data: what runs, what hosts see, what they may do and what they are paid for."""

from ncc.core.errors import ConfigError
from ncc.core.scenario import Scenario
from ncc.core.seeding import derive_seed
from ncc.core.value import Name, Value
from ncc.core.workload import Fixed, Permutation
from ncc.envs.action import ActionSpec
from ncc.envs.expert import AnyExpert
from ncc.envs.observation import ObservationSpec, fair_share_at
from ncc.envs.reward import AnyReward, Utility
from ncc.harness.datapath import HostStack
from ncc.harness.networks import DatapathFactory

__all__ = ["DatapathFactory", "EnvSpec", "EnvView"]


class EnvView(Value, frozen=True):
    """The RL view of any scenario."""

    observation: ObservationSpec = ObservationSpec()
    action: ActionSpec = ActionSpec()
    reward: AnyReward = Utility()

    def check(self) -> None:
        if self.action.kind == "shares":
            fair_share_at(self.observation)  # refuses observations that a share cannot be read from
            if self.observation.ceiling < 1:
                raise ConfigError(
                    "observation.ceiling must be at least 1 with action.kind 'shares', which are of the fair share as "
                    f"it is observed, got {self.observation.ceiling}"
                )


class EnvSpec(Value, frozen=True):
    """A scenario and its RL view.

    An episode is the scenario's `duration_s` on freshly drawn flows. It is *truncated* when that time is up (there is
    no drain in training), and *terminated* when a finite list of flows has been delivered before. A random arrival
    process never terminates an episode, even when no flow is left by chance: to the agent it goes on for ever.
    """

    scenario: Scenario
    stack: HostStack = HostStack()
    view: EnvView = EnvView()
    expert: AnyExpert | None = None
    """Whom learners may ask (`ncc.harness.batch.Advising`)."""
    purpose: Name = "train"
    """Names the stream of seeds, so that flows of training and evaluation never coincide."""

    def episode_seed(self, seed: int, rack: int, episode: int) -> int:
        """Seed of an episode's flows."""
        return derive_seed(seed, self.purpose, rack, episode)

    @property
    def finite(self) -> bool:
        """Whether the workload is a list of flows with an end, rather than a process."""
        return all(isinstance(traffic, Fixed | Permutation) for _, traffic in self.scenario.workload)
