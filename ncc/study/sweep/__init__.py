# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps: trainings over a grid or a sample of settings, chosen and kept by Optuna."""
