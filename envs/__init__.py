# SPDX-License-Identifier: BSD-3-Clause
"""Environments: the reinforcement-learning view of a datapath, and the datapaths themselves."""

if __name__ != "ncc.envs":
    raise ImportError("import this package as 'ncc.envs', not as 'envs': the top-level folder is only its source")
