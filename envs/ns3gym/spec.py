# SPDX-License-Identifier: BSD-3-Clause
"""Specification of a foreign simulation; importing it loads neither Gymnasium nor the protocol."""

from typing import Annotated, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Positive, Value


class SimulationSpec(Value, frozen=True):
    """A simulation that speaks ns3-gym's protocol, and how learners see it; see `ncc.envs.ns3gym.env.Ns3GymEnv`."""

    kind: Literal["ns3gym"] = "ns3gym"
    command: str | None = None
    """Command that starts the simulation, as for a shell; null: the user starts one for each episode."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port of this machine; 0 with `command`: any free one."""
    folder: str = "."
    """Working directory of the command."""
    wait_s: Positive = 60.0
    answer_s: Positive = 600.0
    levels: Annotated[int, Meta(ge=2, le=1000)] = 11
    """Number of values to choose among, for each number of a Box of actions."""
    probe_steps: Count = 1000
    """Number of steps with random actions, before training, that measure the scales of observations and rewards."""
    judged_episodes: Count = 10
    """Number of episodes that judge the policy before and after training, with seeds that training does not use."""

    def check(self) -> None:
        if self.command is None and self.port == 0:
            raise ConfigError(
                "env.command says how to start the simulation, and is null: set it, or env.port to the port at which a "
                "simulation that you start will ask for actions"
            )
