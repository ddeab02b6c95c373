# SPDX-License-Identifier: BSD-3-Clause
"""Learning from copies of one list of flows: PPO against a greedy twin, then evolution of the same weights."""
