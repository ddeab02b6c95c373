# SPDX-License-Identifier: BSD-3-Clause
"""Ray RLlib on the same environments; the only package that imports ray."""
