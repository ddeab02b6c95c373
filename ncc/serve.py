# SPDX-License-Identifier: BSD-3-Clause
"""Serve a rack to an agent that speaks ns3-gym's protocol.

``ncc serve port=5555 scenario=rack`` connects to an agent on this machine that listens there,
``Ns3Env(port=5555, startSim=False)``, and plays an episode with it whenever it resets.
"""

import signal
from contextlib import closing
from typing import Annotated, Any

from msgspec import Meta

from ncc.core.errors import ConfigError
from ncc.core.value import CONSENT, Count, Natural, Positive, Value, from_dict, require_plausible
from ncc.harness.signals import interrupting
from ncc.run.compose import datapaths_from

PARTS = ("datapath", "scenario", "stack", "env", CONSENT)


class ServeSpec(Value, frozen=True):
    """Settings of the command line except those of the environment."""

    port: Annotated[int, Meta(ge=1, le=65535)]
    """TCP port on this machine at which the agent listens."""
    seed: Natural
    """Seed of the flows of the first episode and of all that follow."""
    episodes: Count | None
    """Number of episodes; null: continue until no agent comes back."""
    wait_s: Positive
    """Seconds to wait for an agent, at first and between two episodes."""
    answer_s: Positive
    """Seconds that an agent gets for an action."""


def main(plain: dict[str, Any], _: list[str]) -> None:
    """Serve the environment, and print a line for each episode."""
    spec = from_dict(ServeSpec, {key: value for key, value in plain.items() if key not in PARTS}, "configuration")
    # Imported late, so that `--help` and bad input answer at once
    from ncc.core.scenario import scenario_from_dict
    from ncc.envs.gym import RackEnv
    from ncc.envs.ns3gym.schema import need_packages
    from ncc.envs.spec import EnvView
    from ncc.run.served import serve

    need_packages()
    view = from_dict(EnvView, plain["env"], "env")
    datapaths = datapaths_from(plain["datapath"])
    if len(datapaths) != 1:
        names = ", ".join(datapath.name for datapath in datapaths) or "none"
        raise ConfigError(f"one datapath is served, got {names}: choose datapath=<name>")
    scenario = scenario_from_dict(plain["scenario"])
    require_plausible({"scenario": scenario}, plain[CONSENT])
    env = RackEnv(
        scenario,
        datapath=datapaths[0].load(),
        stack=plain["stack"],
        observation=view.observation,
        action=view.action,
        reward=view.reward,
        purpose="serve",
        consent=True,  # asked above, by `require_plausible`
    )
    print(
        f"Serving {scenario.name} on {datapaths[0].name} to an agent on port {spec.port}: observations "
        f"{env.observation_space}, actions {env.action_space}. Start it: Ns3Env(port={spec.port}, startSim=False)",
        flush=True,
    )
    # However the server is stopped, it tells its agent, which would wait forever.
    with closing(env), interrupting(signal.SIGTERM, signal.SIGHUP):
        played = serve(
            env,
            spec.port,
            spec.seed,
            episodes=spec.episodes,
            wait_s=spec.wait_s,
            answer_s=spec.answer_s,
            on_episode=lambda number, steps, mean, how: print(
                f"episode {number}: {steps} steps, mean reward {mean:+.4f}, {how}", flush=True
            ),
        )
    left = "" if played == spec.episodes else f"; no agent came back within {spec.wait_s:g} s"
    print(f"Served {played} episode{'s' if played != 1 else ''}{left}.")


if __name__ == "__main__":
    from ncc.cli.mains import run_main

    run_main("serve", main)
