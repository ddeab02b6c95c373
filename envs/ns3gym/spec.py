# SPDX-License-Identifier: BSD-3-Clause
"""A foreign simulation as data: importing this loads neither Gymnasium nor the protocol."""

from typing import Annotated, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import Count, Positive, Value


class SimulationSpec(Value, frozen=True):
    """A simulation that speaks ns3-gym's protocol, and how learners see it; see `ncc.envs.ns3gym.env.Ns3GymEnv`."""

    kind: Literal["ns3gym"] = "ns3gym"
    command: str | None = None
    """Starts it, as for a shell; null: it is attached, started by somebody else for each episode."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """0: with `command`, any that is free."""
    folder: str = "."
    """Where the command runs."""
    wait_s: Positive = 60.0
    answer_s: Positive = 600.0
    levels: Annotated[int, Meta(ge=2, le=1000)] = 11
    """Values to choose among, for each number of an action that is a Box."""
    probe_steps: Count = 1000
    """Steps with random actions, before training, that say how large observations and rewards are."""
    judged_episodes: Count = 10
    """Episodes that the policy plays before and after training, of seeds that training does not use."""

    def check(self) -> None:
        if self.command is None and self.port == 0:
            raise ConfigError(
                "env.command says how to start the simulation, and is null: set it, or env.port to the port at which a "
                "simulation that you start will ask for actions"
            )
