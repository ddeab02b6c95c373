# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's own TCP, steered by eBPF: real sockets between network namespaces."""
