# SPDX-License-Identifier: BSD-3-Clause
"""Learners compared, at equal epochs and at equal wall time."""
