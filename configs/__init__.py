# SPDX-License-Identifier: BSD-3-Clause
"""Configuration: Hydra groups, one YAML per thing that can be chosen."""

if __name__ != "ncc.configs":
    raise ImportError("import this package as 'ncc.configs', not as 'configs': the top-level folder is only its source")
