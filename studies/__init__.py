# SPDX-License-Identifier: BSD-3-Clause
"""Studies that are not part of the package: they made the tuned sets and formulas of configs/, and analyse policies."""
