# SPDX-License-Identifier: BSD-3-Clause
"""Documentation: pages for readers, and what builds a site of them."""
