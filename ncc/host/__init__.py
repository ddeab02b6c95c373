# SPDX-License-Identifier: BSD-3-Clause
"""Agents of hosts with real traffic, and the commands of ``ncc host``."""
