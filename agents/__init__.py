# SPDX-License-Identifier: BSD-3-Clause
"""Learning agents that choose rates."""

if __name__ != "ncc.agents":
    raise ImportError("import this package as 'ncc.agents', not as 'agents': the top-level folder is only its source")
