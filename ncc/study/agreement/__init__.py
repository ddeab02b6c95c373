# SPDX-License-Identifier: BSD-3-Clause
"""Comparison of two datapaths: flow by flow in small cases, and by FCTs and figures of whole runs under load."""
