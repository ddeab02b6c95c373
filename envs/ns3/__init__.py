# SPDX-License-Identifier: GPL-2.0-only
"""ns-3 as a datapath inside this process. Importing this is cheap; the extension is loaded on first use."""

from ncc.envs.ns3.datapath import Ns3Datapath

__all__ = ["Ns3Datapath"]
