# SPDX-License-Identifier: BSD-3-Clause
"""A paper's figure as an experiment: what is run, what is measured, what the paper shows, and whether ours does."""
