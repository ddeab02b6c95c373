# SPDX-License-Identifier: BSD-3-Clause
"""Plans, controllers, rate limiters and folders of trainings and evaluations, made from names and settings."""
