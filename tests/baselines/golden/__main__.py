# SPDX-License-Identifier: BSD-3-Clause
"""Redraw the golden curves: ``python -m tests.baselines.golden [name ...]``, of controllers and front ends."""

import argparse

from ncc.core.errors import UnknownNameError
from tests.baselines import golden


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.baselines.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="default: all")
    args = parser.parse_args()
    for name in args.names or golden.names():
        if name not in golden.names():
            raise UnknownNameError("controller or front end", name, golden.names())
        golden.save(name, golden.draw(name))
        print(golden.path(name))  # noqa: T201


if __name__ == "__main__":
    main()
