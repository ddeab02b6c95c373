# SPDX-License-Identifier: BSD-3-Clause
"""This machine as a host of real traffic: `python -m ncc.host check` says what it can do."""
