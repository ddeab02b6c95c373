# SPDX-License-Identifier: BSD-3-Clause
"""Conversion from the Markdown of code hosts (CommonMark with tables) to that of mkdocs (Python-Markdown)."""

import re

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
ITEM = re.compile(r"(?:[-*+]|1[.)]) +\S")
OTHER_ITEM = re.compile(r" *(?:[-*+]|\d+[.)]) +\S")
TABLE_RULE = re.compile(r" {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$")


def adapted(text: str) -> str:
    """Insert the empty lines that Python-Markdown needs before a list and before a table.

    CommonMark lets both interrupt a paragraph (a numbered list if it begins with 1). Fenced text is not changed.
    """
    lines = text.split("\n")
    out: list[str] = []
    fence = ""
    listed = False  # an indented line continues an item
    for number, line in enumerate(lines):
        opened = FENCE.match(line)
        if fence:
            fence = "" if opened and opened[1].startswith(fence) and line.strip() == opened[1] else fence
        elif opened:
            fence = opened[1]
        elif not (out and out[-1].strip()):
            listed = bool(OTHER_ITEM.match(line)) or (listed and (line.startswith(" ") or not line))
        else:
            after = lines[number + 1] if number + 1 < len(lines) else ""
            before = out[-1]
            item = before.startswith(" ") and listed
            paragraph = not (item or before.lstrip().startswith(("#", "|", ">")) or OTHER_ITEM.match(before))
            begins_table = "|" in line and "|" in after and bool(TABLE_RULE.match(after))
            if paragraph and (ITEM.match(line) or begins_table):
                out.append("")
            listed = listed or bool(OTHER_ITEM.match(line))
        out.append(line)
    return "\n".join(out)
