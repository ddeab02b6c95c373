# SPDX-License-Identifier: BSD-3-Clause
"""Tables, figures and pages from run folders."""
