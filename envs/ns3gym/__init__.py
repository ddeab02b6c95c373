# SPDX-License-Identifier: BSD-3-Clause
"""ns3-gym's protocol: simulations that speak it as environments here, and environments from here for its agents."""

from ncc.envs.ns3gym.env import Ns3GymEnv

__all__ = ["Ns3GymEnv"]
