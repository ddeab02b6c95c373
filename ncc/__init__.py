# SPDX-License-Identifier: BSD-3-Clause
"""Neighbour-aware congestion control, learned and classical, in one framework.

Importing this package loads neither torch nor ns-3 nor ray. It registers its environments with Gymnasium without
loading Gymnasium: ``import gymnasium, ncc; env = gymnasium.make("ncc/Rack-v0")``.
"""

from importlib.metadata import PackageNotFoundError, version

from ncc.core.registration import register_when_imported

try:
    __version__ = version("neighbour-cc")
except PackageNotFoundError:  # an uninstalled checkout
    __version__ = "0.0.0+checkout"

register_when_imported()
