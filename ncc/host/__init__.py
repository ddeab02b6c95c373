# SPDX-License-Identifier: BSD-3-Clause
"""This machine as a host of real traffic: `ncc host check` says what it can do."""
