# SPDX-License-Identifier: BSD-3-Clause
"""Commands in pages, and what the pages show that they print."""

import re

from tests.house.files import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[0-9a-f]{64}|\d[\d,]*(?:\.\d+)?")
ROOM = 0.02
"""Share by which a number may differ: another processor rounds differently, and a policy decides differently then."""


def blocks(page: str) -> list[tuple[str, str]]:
    """Kind and text of each fenced block of a page."""
    return BLOCK.findall((ROOT / page).read_text())


def quoted(page: str, command: str) -> tuple[list[str], str]:
    """Words, without `ncc`, of the command of a page that begins so, and the next block that shows what is printed."""
    found = blocks(page)
    for at, (kind, text) in enumerate(found):
        for line in text.splitlines() if kind == "sh" else ():
            if line.startswith(command):
                shown = next(below for kind, below in found[at:] if kind == "text")
                return line.partition("  #")[0].split()[1:], shown
    raise AssertionError(f"{page} has no command that begins with {command!r}")


def assert_printed(shown: str, printed: str, *, whole: bool = True) -> None:
    """All lines shown are printed one after the other, or only in that order where the page leaves some out.

    Whole numbers are the same; others may differ by `ROOM`, and digests in full.
    """
    lines, wanted = printed.splitlines(), shown.splitlines()
    if whole:
        starts = range(len(lines) - len(wanted) + 1)
        found = any(all(map(_same, wanted, lines[i : i + len(wanted)])) for i in starts)
    else:
        rest = iter(lines)
        found = all(any(_same(line, other) for other in rest) for line in wanted)
    assert found, f"shown:\n{shown}\nprinted:\n{printed}"


def _same(shown: str, printed: str) -> bool:
    numbers = [[each.replace(",", "") for each in NUMBER.findall(line)] for line in (shown, printed)]
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split() or len(numbers[0]) != len(numbers[1]):
        return False
    return all(len(a) == len(b) == 64 or _near(a, b) for a, b in zip(*numbers, strict=True))


def _near(shown: str, printed: str) -> bool:
    if "." not in shown:
        return shown == printed
    last = 10.0 ** -len(shown.partition(".")[2])
    return abs(float(shown) - float(printed)) <= max(ROOM * float(shown), last) * 1.001
