# SPDX-License-Identifier: BSD-3-Clause
"""Training on other people's simulations, which have no scenario of ours: ``ncc train env=ns3gym``."""
