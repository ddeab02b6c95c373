# SPDX-License-Identifier: BSD-3-Clause
"""Advantage actor-critic: asynchronous (A3C) and synchronous, bit-reproducible (A2C) on the same loss."""
