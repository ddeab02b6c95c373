# SPDX-License-Identifier: BSD-3-Clause
"""Runs and their results on disk. A run has one scenario, one controller, one datapath and one seed."""
