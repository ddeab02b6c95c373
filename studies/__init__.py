# SPDX-License-Identifier: BSD-3-Clause
"""Scripts that made the committed tuned sets and tuned formulas. They are not part of the package."""
