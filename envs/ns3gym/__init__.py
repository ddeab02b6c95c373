# SPDX-License-Identifier: BSD-3-Clause
"""ns3-gym's protocol in both directions: its simulations as environments, and our environments for its agents."""

from ncc.envs.ns3gym.env import Ns3GymEnv

__all__ = ["Ns3GymEnv"]
