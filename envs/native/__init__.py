# SPDX-License-Identifier: BSD-3-Clause
"""What simulators in C++ share: the run as numbers, records, routes, rate limiter, and their `Datapath` in Python."""
