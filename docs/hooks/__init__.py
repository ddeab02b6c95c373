# SPDX-License-Identifier: BSD-3-Clause
"""What mkdocs asks while it builds the site: pages from outside docs/, links between them, navigation, checks."""
