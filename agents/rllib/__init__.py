# SPDX-License-Identifier: BSD-3-Clause
"""Ray RLlib over the same environments; the only place that imports ray."""
