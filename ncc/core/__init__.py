# SPDX-License-Identifier: BSD-3-Clause
"""Values that everything shares: units, topology, workload, scenario, measurement."""
