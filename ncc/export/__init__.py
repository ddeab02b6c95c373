# SPDX-License-Identifier: BSD-3-Clause
"""From a finished training to one file for hosts, and what such a file holds."""
