# SPDX-License-Identifier: BSD-3-Clause
"""Training on simulations of others, which have no scenario of ours: ``ncc train env=ns3gym``."""
