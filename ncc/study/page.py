# SPDX-License-Identifier: BSD-3-Clause
"""Writing of a study's results: plain data as JSON, and a Markdown page from a Jinja template in `templates/`."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ncc.results.grid import markdown_table
from ncc.results.palette import label

README, JSON = "README.md", "results.json"
DASH = "–"  # noqa: RUF001


def json_text(value: Any, depth: int) -> str:
    """Format as JSON with a line for each entry of the `depth` outer levels: small changes then change few lines."""
    return _json(value, depth, "\n") + "\n"


def _json(value: Any, depth: int, line: str) -> str:
    if depth == 0 or not value or not isinstance(value, Mapping | Sequence) or isinstance(value, str):
        return json.dumps(value, allow_nan=False)
    deeper = line + " "
    if isinstance(value, Mapping):
        entries = [f"{json.dumps(key)}: {_json(part, depth - 1, deeper)}" for key, part in value.items()]
        return "{" + deeper + f",{deeper}".join(entries) + line + "}"
    return "[" + deeper + f",{deeper}".join(_json(part, depth - 1, deeper) for part in value) + line + "]"


def render(template: str, **data: Any) -> str:
    """Render a template of `templates/`, which uses `data` by name."""
    text: str = _environment().get_template(template).render(data)
    return text


@cache
def _environment() -> Environment:
    # No escaping: templates write Markdown, and the filter `plain` escapes texts that people wrote.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "point": point, "label": label}
    environment.globals["table"] = markdown_table
    return environment


def plain(text: str) -> str:
    """Put a text on one line, and escape it for Markdown and HTML."""
    return escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def point(x: float | str) -> str:
    """Format a point of an axis."""
    return plain(x) if isinstance(x, str) else f"{x:g}"


def number(value: float | None, scale: float = 1.0, digits: int = 3) -> str:
    """Format a number times `scale` for a table; None becomes a dash."""
    return DASH if value is None else f"{value * scale:.{digits}f}"


def spread(value: float | None, low: float | None, high: float | None, scale: float = 1.0, digits: int = 3) -> str:
    """Format a number and, if it has a width, its interval [low, high], all times `scale`."""
    text = number(value, scale, digits)
    if low is None or low == high:
        return text
    return f"{text} [{number(low, scale, digits)}, {number(high, scale, digits)}]"
