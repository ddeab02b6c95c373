# SPDX-License-Identifier: BSD-3-Clause
"""Counting: flow completion times, fairness, intervals."""
