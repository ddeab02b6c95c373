# SPDX-License-Identifier: BSD-3-Clause
"""Plans, controllers, racks and folders of trainings and evaluations, from names and settings."""
