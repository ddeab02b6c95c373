# SPDX-License-Identifier: BSD-3-Clause
"""Redraw the golden curves: ``python -m tests.baselines.golden [--png FOLDER] [controller ...]``."""

import argparse
from pathlib import Path

from ncc.baselines.registry import controller, controllers
from tests.baselines import golden


def picture(name: str, folder: Path) -> Path:
    """All stimuli of a controller in one PNG."""
    from matplotlib.figure import Figure

    curves = golden.load(name)
    figure = Figure(figsize=(10, 6), layout="constrained")
    for axes, (title, rows) in zip(figure.subplots(2, 3).flat, curves.items(), strict=True):
        axes.step(range(len(rows["cwnd_pkts"])), rows["cwnd_pkts"], where="post", color="tab:blue")
        for key, colour in (("losses", "tab:orange"), ("timeouts", "tab:red")):
            for event in rows[key]:
                axes.axvline(event, color=colour, linewidth=0.8, linestyle=":")
        axes.set(title=title, xlabel="event", ylabel="cwnd (packets)", ylim=(0, None))
    figure.suptitle(name)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=110)
    return folder / f"{name}.png"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.baselines.golden", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="controller", help="default: all")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="draw pictures there too")
    args = parser.parse_args()
    for name in [controller(name).name for name in args.names] or sorted(controllers()):
        golden.save(name, golden.draw(name))
        print(golden.path(name))  # noqa: T201
        if args.png:
            print(picture(name, args.png))  # noqa: T201


if __name__ == "__main__":
    main()
