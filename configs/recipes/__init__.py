# SPDX-License-Identifier: BSD-3-Clause
"""Recipes of training: a search path of `ncc.train` alone, whose group `experiment` they are."""
