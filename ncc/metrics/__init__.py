# SPDX-License-Identifier: BSD-3-Clause
"""Metrics: flow completion times, fairness, confidence intervals."""
