# SPDX-License-Identifier: BSD-3-Clause
"""Values that all other packages share: units, topology, workload, scenario, measurement."""
