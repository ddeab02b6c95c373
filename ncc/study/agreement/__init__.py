# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of two datapaths: flow by flow in small cases, and within stated bounds under load."""
