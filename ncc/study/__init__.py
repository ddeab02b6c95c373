# SPDX-License-Identifier: BSD-3-Clause
"""Studies: a grid of runs, a table of their measurements, checks of the table, and a page that shows both."""
