# SPDX-License-Identifier: BSD-3-Clause
"""Redraw the golden curves: ``python -m tests.baselines.golden [controller ...]``."""

import argparse

from ncc.baselines.registry import controller, controllers
from tests.baselines import golden


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.baselines.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="controller", help="default: all")
    args = parser.parse_args()
    for name in [controller(name).name for name in args.names] or sorted(controllers()):
        golden.save(name, golden.draw(name))
        print(golden.path(name))  # noqa: T201


if __name__ == "__main__":
    main()
