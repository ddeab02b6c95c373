# SPDX-License-Identifier: BSD-3-Clause
"""Whether two datapaths give the same results: small cases exactly, loaded ones within stated bounds."""
