# SPDX-License-Identifier: BSD-3-Clause
"""A training on a foreign simulation as a value, checked before anything starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncc.core.errors import ConfigError, ResultError, UnknownNameError
from ncc.core.value import Natural, Value, from_dict
from ncc.envs.ns3gym.process import split_command
from ncc.envs.ns3gym.spec import SimulationSpec
from ncc.harness.learner import Learner
from ncc.run.compose import learner_configs
from ncc.run.plan import FOREIGN, is_foreign, not_ours, read_plain, save_plain

PARTS = ("env", "agent", "seed")
OURS = ("scenario", "datapath", "stack", "families", "evaluation", "experiment")
"""Parts of a configuration that concern only networks of ours."""


@dataclass(frozen=True)
class SimulationPlan:
    """Simulation, learner and seed of a training."""

    plain: dict[str, Any]
    env: SimulationSpec
    learner: Any
    """The agent's configuration (a `Value` with `build() -> Learner`)."""
    seed: int

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], overrides: Sequence[str] = ()) -> "SimulationPlan":
        """Check every part; errors name the field and what is allowed.

        Args:
            plain: a configuration of `ncc train`; parts about networks of ours are left out.
            overrides: overrides as typed, which must not set those parts.
        """
        for override in overrides:
            if override.lstrip("+~").partition("=")[0].partition(".")[0].partition("/")[0] in OURS:
                raise ConfigError(
                    f"env={FOREIGN} trains on a simulation of its own, and on no network of ours: leave out {override}"
                )
        plain = {name: plain[name] for name in PARTS}
        agent = dict(plain["agent"])
        name, configs = agent.pop("learner", None), learner_configs()
        if name not in configs:
            raise UnknownNameError("agent.learner", str(name), configs)
        learner: Any = from_dict(configs[name], agent, "agent")
        env = from_dict(SimulationSpec, plain["env"], "env")
        if getattr(learner, "offline", False):
            raise ConfigError(
                f"agent.algorithm {learner.algorithm!r} learns from recorded episodes and never steps a simulation: "
                "choose agent=a3c, a2c or rllib_ppo"
            )
        seed = from_dict(_Seed, {"seed": plain["seed"]}, "configuration").seed
        return cls(plain=plain, env=env, learner=learner, seed=seed)

    def build(self) -> Learner:
        """Make the learner.

        Raises:
            ConfigError: the command cannot be run, or more simulations are asked for than can be attached.
        """
        if self.env.command is not None:
            split_command(self.env.command, Path(self.env.folder), "env.command")
        learner: Learner = self.learner.build(batching=False)
        if learner.processes > 1 and self.env.port:
            raise ConfigError(
                f"the agent asks for {learner.processes} simulations at a time, and env.port={self.env.port} is for "
                "one: set agent.workers=1 and agent.racks=1, or let ncc start them (env.command, env.port=0)"
            )
        return learner

    def save(self, folder: Path) -> None:
        """Save the plan in the run folder, so that `resume` can read it."""
        save_plain(folder, self.plain)

    @classmethod
    def load(cls, folder: Path) -> "SimulationPlan":
        """Load the plan of a run folder that `is_foreign`."""
        try:
            return cls.from_plain(read_plain(folder))
        except (KeyError, ConfigError) as error:
            raise not_ours(folder, error) from None


def foreign_run(folder: Path) -> bool:
    """True if a run folder is of a training on a foreign simulation; False if it cannot be read."""
    try:
        plain = read_plain(folder)
    except ResultError:
        return False
    return isinstance(plain, dict) and is_foreign(plain.get("env"))


class _Seed(Value, frozen=True):
    seed: Natural
