# SPDX-License-Identifier: BSD-3-Clause
"""Writer of a report. Everything is read, checked and drawn before the file is changed."""

from itertools import count, product
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from ncc.core.errors import ConfigError, ResultError
from ncc.core.value import Name, Natural, Value
from ncc.harness.atomic import write_text
from ncc.harness.progress import Bar
from ncc.results.closeup import Drawing
from ncc.results.figure_layout import FigureWidth, layout_of
from ncc.results.plot import laid_out
from ncc.results.report.page import GENERATOR, Part, drawings, part_of, render
from ncc.results.report.sources import Source, read_source, require_folder

FILE = "report.html"
RUNS = Path("runs")
READ_FRAC = 0.25
"""Share of the bar for reading and, again, for computing; figures have the rest."""


class ReportSpec(Value, frozen=True):
    """Settings of `ncc report`, as in configs/report.yaml."""

    run: tuple[str, ...]
    """Folders of finished runs."""
    out: str | None = None
    """Path of the page; None: report.html in the only folder or, for several folders, in runs/."""
    overwrite: bool = False
    title: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Title of the page; None: a title made of the names of the scenarios."""
    reference: Name | None = None
    """Controller that the others are compared with; None: as when they were run."""
    timeline: tuple[Name, ...] | None = None
    """Controllers drawn side by side; None: the first four, one of them the reference."""
    seed: Natural | None = None
    """Seed of the runs drawn side by side; None: the smallest."""
    windows: bool = False
    """Draw congestion windows too, for which the runs that are drawn side by side are done again."""
    figures: tuple[Literal["pdf", "svg", "png"], ...] = ()
    """Forms in which each figure is written as a file of its own as well."""
    width_in: FigureWidth = None
    """Width of these files in inches, such as that of a paper's column; None: as on the page."""
    titles: bool = True
    """Give these files their titles."""

    def check(self) -> None:
        if not self.run:
            raise ConfigError(
                "run names no folder; name one that ncc train or ncc evaluate made, or several: run=[a, b]"
            )
        if len({Path(run).resolve() for run in self.run}) < len(self.run):
            raise ConfigError(f"run names a folder twice: {', '.join(self.run)}")
        layout_of(self.width_in, titles=self.titles, figures=self.figures)


def write_report(spec: ReportSpec) -> Path:
    """Write the page, and the figures that are files of their own; return the path of the page.

    Raises:
        ConfigError: a folder does not exist, a name in the settings was not run, or the file may not be replaced.
        ResultError: a folder is unfinished, damaged or of another version, or has no evaluation.
    """
    path = _path(spec)
    _claim(path, overwrite=spec.overwrite)
    for run in spec.run:
        require_folder(Path(run))
    parts: list[Part] = []
    choices: dict[str, Any] = {key: getattr(spec, key) for key in ("timeline", "seed", "windows")}
    with Bar("reporting") as bar:
        sources: list[Source] = []
        for run in spec.run:
            bar.update(READ_FRAC * len(sources) / len(spec.run), f"reading {run}")
            sources.append(read_source(Path(run), spec.reference))
        for source in sources:
            bar.update(READ_FRAC * (1 + len(parts) / len(spec.run)), f"computing {source.name}")
            parts.append(part_of(source, parts, **choices))
        n = sum(len(drawings(part)) for part in parts) * (2 + len(spec.figures))
        drawn = count()

        def before_drawing(drawing: Drawing) -> None:
            bar.update(2 * READ_FRAC + (1 - 2 * READ_FRAC) * next(drawn) / n, f"drawing {drawing.name}")

        write_text(path, render(parts, spec.title, before_drawing))
        with laid_out(layout_of(spec.width_in, titles=spec.titles, figures=spec.figures)):
            for part in parts:
                folder = figures_beside(path) / (part["source"].name if len(parts) > 1 else "")
                for drawing, form in product(drawings(part), spec.figures):
                    before_drawing(drawing)
                    drawing.draw(folder / f"{drawing.name}.{form}")
        bar.update(1.0)
    return path


def figures_beside(page: Path) -> Path:
    """Path of the folder of the figures that are files of their own, which has a folder for each of several runs."""
    return page.with_name(f"{page.stem}_figures")


def _path(spec: ReportSpec) -> Path:
    if spec.out is not None:
        return Path(spec.out)
    return (Path(spec.run[0]) if len(spec.run) == 1 else RUNS) / FILE


def _claim(path: Path, *, overwrite: bool) -> None:
    """Raise an error if the report may not be written to `path`, before the long work of reading begins.

    A file that is there must be a report, unless `overwrite` is set.
    """
    if path.is_dir():
        raise ConfigError(f"out={path} is a folder; name a file, say {path / FILE}")
    if path.suffix not in (".html", ".htm"):
        raise ConfigError(f"out={path} must end in .html, as browsers go by it")
    if overwrite or not path.exists():
        return
    try:
        with path.open("rb") as file:
            ours = GENERATOR.encode() in file.read(2000)
    except OSError as error:
        raise ResultError(f"cannot read {path} ({error.strerror}); choose another file with out=") from None
    if not ours:
        raise ConfigError(f"out={path} is there and is no report; choose another file, or replace it: overwrite=true")
