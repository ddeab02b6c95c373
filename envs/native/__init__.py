# SPDX-License-Identifier: BSD-3-Clause
"""The common part of simulators in C++: specs of runs, records, routes, rate limiter, and a `Datapath` in Python."""
