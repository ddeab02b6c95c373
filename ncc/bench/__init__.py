# SPDX-License-Identifier: BSD-3-Clause
"""Speed, as ratios within one run; `ncc bench` measures and prints."""
