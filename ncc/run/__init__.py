# SPDX-License-Identifier: BSD-3-Clause
"""From names and settings to runs: plans, controllers, racks and folders of trainings and evaluations."""
