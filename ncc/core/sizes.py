# SPDX-License-Identifier: BSD-3-Clause
"""Flow-size tables in text files of users, and the place of files in a configuration."""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ncc.core.distributions import DISTRIBUTIONS, SizeDistribution
from ncc.core.errors import ConfigError
from ncc.core.traces import read_trace

KEY = "distribution"
"""Configuration key that names a table."""
FORMS = "a size in bytes and the cumulative share of flows up to it, in percent (to 100) or as a fraction (to 1)"
MAX_BYTES = 2**53
MAX_LINES = 100_000
ROUNDING_FRAC = 1e-6
"""Largest relative error of the last share, which should be 1 or 100 percent."""


class _Row(NamedTuple):
    line: int
    size: float
    share: float


def read_sizes(path: Path) -> SizeDistribution:
    """Read the table in a text file: per line a size in bytes and the cumulative share of flows up to it.

    The last line tells whether shares are percent (it ends at 100) or fractions (at 1). Columns are separated by blanks
    or commas; ``#`` begins a comment. Sizes between two lines are uniform; a first share above 0 is the share of flows
    of exactly the first size.

    Raises:
        ConfigError: the file cannot be read or is no such table; the message names the file and the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(
            f"flow sizes {str(path)!r} cannot be read ({why}); name a file of lines with {FORMS}"
        ) from None
    rows = [_row(path, i, text) for i, line in enumerate(lines, start=1) if (text := line.partition("#")[0].strip())]
    if not 2 <= len(rows) <= MAX_LINES:
        raise ConfigError(f"{path} must have 2 to {MAX_LINES} lines with {FORMS}, got {len(rows)}")
    for above, row in pairwise(rows):
        for what, before, now in (("size", above.size, row.size), ("share", above.share, row.share)):
            if now < before:
                raise _refused(
                    path,
                    row.line,
                    f"the {what} falls from {_digits(before)} to {_digits(now)}; neither column may fall",
                )
    last = rows[-1]
    whole = next((whole for whole in (1, 100) if math.isclose(last.share, whole, rel_tol=ROUNDING_FRAC)), None)
    if whole is None:
        raise _refused(
            path, last.line, f"the last share must be 100 (percent) or 1 (a fraction), got {_digits(last.share)}"
        )
    if last.size < 1:
        raise _refused(path, last.line, f"the largest size must be at least 1 byte, got {last.size:g}")
    points = [(row.size, min(row.share / whole, 1.0)) for row in rows[:-1]]
    return SizeDistribution(name=path.name, points=(*points, (last.size, 1.0)))


def with_tables(plain: Any) -> Any:
    """Replace each file name of a flow-size table or of a trace in plain configuration by what the file holds.

    Results can then be reproduced without the file. Paths are relative to the current folder.

    Raises:
        ConfigError: see `read_sizes` and `ncc.core.traces.read_trace`.
    """
    if isinstance(plain, Mapping):
        if plain.get("kind") == "trace" and isinstance(rows := plain.get("rows"), str):
            return {**plain, "rows": read_trace(Path(rows).expanduser())}
        return {
            key: _tables(value) if str(key).rpartition(".")[2] == KEY else with_tables(value)
            for key, value in plain.items()
        }
    return [with_tables(part) for part in plain] if isinstance(plain, list | tuple) else plain


def _tables(value: Any) -> Any:
    """Replace the file names in a value of `KEY`: a table, a list of tables, or a mapping with a list of `values`."""
    if isinstance(value, str):
        named = value in DISTRIBUTIONS or not {".", "/"} & set(value)
        return value if named else read_sizes(Path(value).expanduser()).to_dict()
    if isinstance(value, Mapping):
        return {key: _tables(part) if key == "values" else part for key, part in value.items()}
    return [_tables(part) for part in value] if isinstance(value, list | tuple) else value


def _row(path: Path, line: int, text: str) -> _Row:
    try:
        size, share = map(float, text.replace(",", " ").split())
    except ValueError:
        raise _refused(path, line, f"it must have two numbers, {FORMS}, got {text!r}") from None
    if not (math.isfinite(size) and 0 <= size <= MAX_BYTES):
        raise _refused(path, line, f"the size must be 0 to {MAX_BYTES} bytes, got {size:g}")
    if not 0 <= share <= 100 * (1 + ROUNDING_FRAC):
        raise _refused(path, line, f"the share must be 0 to 100 percent or a fraction of 0 to 1, got {_digits(share)}")
    return _Row(line, size, share)


def _digits(number: float) -> str:
    """All digits of a number, because a share just below 1 would be rounded to 1."""
    return repr(number).removesuffix(".0")


def _refused(path: Path, line: int, why: str) -> ConfigError:
    return ConfigError(f"{path}, line {line}: {why}")
