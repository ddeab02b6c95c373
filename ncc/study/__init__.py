# SPDX-License-Identifier: BSD-3-Clause
"""Studies: a grid of runs, a table of what they measured, checks of it, and a page that shows both."""
