# SPDX-License-Identifier: BSD-3-Clause
"""Every controller in every kind of network: does each run to the end, and with what result?"""
