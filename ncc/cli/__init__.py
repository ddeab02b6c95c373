# SPDX-License-Identifier: BSD-3-Clause
"""Common parts of the commands: entry, help and verbs."""
