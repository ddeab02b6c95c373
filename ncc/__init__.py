# SPDX-License-Identifier: BSD-3-Clause
"""ncc: neighbour-aware congestion control, learned and classical, through one harness.

Importing this package loads neither torch nor ns-3 nor ray.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ncc")
except PackageNotFoundError:  # an uninstalled checkout
    __version__ = "0.0.0+checkout"
