# SPDX-License-Identifier: BSD-3-Clause
"""Baselines: hand-written congestion controllers, each a C header."""

if __name__ != "ncc.baselines":
    raise ImportError(
        "import this package as 'ncc.baselines', not as 'baselines': the top-level folder is only its source"
    )
