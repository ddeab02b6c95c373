# SPDX-License-Identifier: BSD-3-Clause
"""The comparison of two datapaths: small cases exactly, loaded ones within stated bounds."""
