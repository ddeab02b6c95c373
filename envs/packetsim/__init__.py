# SPDX-License-Identifier: BSD-3-Clause
"""Our own packet-level simulator, which is fast enough to learn on and is compared with ns-3 flow by flow."""

from ncc.envs.packetsim.datapath import PacketsimDatapath

__all__ = ["PacketsimDatapath"]
