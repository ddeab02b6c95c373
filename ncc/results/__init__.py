# SPDX-License-Identifier: BSD-3-Clause
"""From run folders to tables, figures and pages."""
