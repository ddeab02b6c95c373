# SPDX-License-Identifier: BSD-3-Clause
"""One run = scenario x controller x datapath x seed, and its results on disk."""
