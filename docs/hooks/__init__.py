# SPDX-License-Identifier: BSD-3-Clause
"""Hooks of mkdocs that build the site: pages from outside docs/, links between them, navigation and tables."""
