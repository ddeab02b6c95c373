# SPDX-License-Identifier: BSD-3-Clause
"""ns3-gym's protocol in both directions: its simulations as environments, and our environments for its agents."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ncc.envs.ns3gym.env import Ns3GymEnv

__all__ = ["Ns3GymEnv"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: every main's configuration imports `spec` from here, which must not load Gymnasium.
    if name == "Ns3GymEnv":
        from ncc.envs.ns3gym.env import Ns3GymEnv

        return Ns3GymEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
