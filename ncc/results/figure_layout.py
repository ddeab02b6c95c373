# SPDX-License-Identifier: BSD-3-Clause
"""Settings of figures that are files of their own, as the commands take them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ncc.core.errors import ConfigError

FigureWidth = Annotated[float, Meta(ge=2, le=20)] | None
"""Type of the setting `width_in`."""


@dataclass(frozen=True)
class FigureLayout:
    """Width of figures in inches, or None as for a screen; and whether they have titles."""

    width_in: float | None = None
    titles: bool = True


SCREEN = FigureLayout()


def layout_of(width_in: FigureWidth, *, titles: bool, figures: Sequence[str]) -> FigureLayout:
    """Make the layout of a command's settings; `ConfigError` if no `figures` are written to which they apply."""
    layout = FigureLayout(width_in, titles)
    if layout != SCREEN and not figures:
        raise ConfigError("width_in and titles are for figures that are files of their own: add figures=pdf")
    return layout
