# SPDX-License-Identifier: BSD-3-Clause
"""Environments of ours, served to agents of others."""
