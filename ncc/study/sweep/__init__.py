# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps: trainings with many settings, all of a grid or a sample, which Optuna chooses and records."""
