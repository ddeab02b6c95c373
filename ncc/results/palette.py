# SPDX-License-Identifier: BSD-3-Clause
"""Name and style of each controller in all tables and figures. Colours: Okabe and Ito, and Tol's muted set."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncc.harness.controller import TUNED


@dataclass(frozen=True)
class Style:
    """Name and style of one controller."""

    label: str
    colour: str
    marker: str
    line: str
    """matplotlib line style."""


PALETTE = {
    "ncc": Style("NCC", "#0072B2", "o", "-"),
    "trained": Style("trained policy", "#00A6D6", "D", "--"),
    "ncc_untrained": Style("NCC untrained", "#56B4E9", "v", ":"),
    "fixed_share": Style("fixed share", "#777777", "s", "--"),
    "dctcp": Style("DCTCP", "#D55E00", "^", "-"),
    "newreno": Style("NewReno", "#009E73", "D", "--"),
    "gemini": Style("GEMINI", "#AA8800", "p", "-"),
    "cubic": Style("CUBIC", "#AA4499", "P", "-."),
    "bbr": Style("BBR", "#7A0F2E", "X", "-"),
    "vegas": Style("Vegas", "#332288", ">", "--"),
    # Upper bounds: limits with perfect knowledge, and orders without limits.
    "max_min": Style("max-min oracle", "#44BB99", "s", "-."),
    "shortest_first": Style("shortest-first oracle", "#1B7837", "D", "--"),
    "ncc_order": Style("order only", "#99DDFF", "o", "--"),
    # Bounds (`ncc.metrics.bounds`) are not controllers, so they are thin and grey.
    "ideal_fair": Style("ideal fair", "#AAAAAA", "", "--"),
    "attained_bound": Style("bound by attained", "#BBBBBB", "", "-."),
    "services_bound": Style("bound by services", "#999999", "", ":"),
    "srpt_bound": Style("SRPT bound", "#888888", "", "-"),
    # Controllers of ns-3 are paler than ours and dotted, because figures mostly show both.
    "ns3_cubic": Style("CUBIC (ns-3)", "#CC79A7", "8", ":"),
    "ns3_bbr": Style("BBR (ns-3)", "#CC6677", "h", ":"),
    "ns3_vegas": Style("Vegas (ns-3)", "#8877CC", "H", ":"),
    # Controllers of the kernel, in the same way.
    "linux_dctcp": Style("DCTCP (Linux)", "#B8860B", "<", ":"),
    "linux_reno": Style("Reno (Linux)", "#66A61E", "d", ":"),
    "linux_cubic": Style("CUBIC (Linux)", "#DDA0DD", "8", ":"),
    "linux_bbr": Style("BBR (Linux)", "#B5475C", "h", ":"),
}

_COLOURS = ("#000000", "#44AA99", "#00AACC", "#6B8E23", "#E377C2", "#9C755F", "#225555", "#A0A000")
"""Colours for names that are not in `PALETTE`; no controller of `PALETTE` has one of them."""
_LINES = ("-", "--", "-.", ":")
_MARKERS = "osv^D<>PXd"
_SHADES = (0.0, 0.45, -0.4)
"""Shades of a controller's variants: 0 keeps its colour, positive values are lighter, negative ones darker."""
_LOOKS = tuple((colour, line) for line in _LINES for colour in _COLOURS)


def styles(names: Sequence[str]) -> dict[str, Style]:
    """Choose a style for each name, in the order given.

    The style of a name outside `PALETTE`, such as a new controller's, follows from the name alone, so that it is the
    same in every figure. If two such names in one figure would look the same, the alphabetically later one takes a free
    style.
    """
    taken: set[int] = set()
    chosen = {name: _tuned(base) for name in names if (base := _base(name)) is not None}
    for name in sorted(set(names) - set(PALETTE) - set(chosen)):
        slot = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % len(_LOOKS)
        while slot in taken and len(taken) < len(_LOOKS):
            slot = (slot + 1) % len(_LOOKS)
        taken.add(slot)
        colour, line = _LOOKS[slot]
        chosen[name] = Style(name, colour, _MARKERS[slot % len(_MARKERS)], line)
    return {name: PALETTE.get(name) or chosen[name] for name in names}


def variant_styles(controllers: Mapping[str, str]) -> dict[str, Style]:
    """Make a style for each variant of a controller, in the controller's hue and with its label.

    The first variant of a controller looks like the controller itself. The next ones have lighter or darker shades,
    other lines and other markers.

    Args:
        controllers: controller of each variant, by the variant's name.
    """
    of_controllers = styles(list(dict.fromkeys(controllers.values())))
    seen: dict[str, int] = {}
    variants = {}
    for variant, controller in controllers.items():
        place, style = seen.get(controller, 0), of_controllers[controller]
        seen[controller] = place + 1
        variants[variant] = Style(
            style.label,
            _shade(style.colour, _SHADES[place % len(_SHADES)]),
            _further(_MARKERS, style.marker, place),
            _further(_LINES, style.line, place),
        )
    return variants


def _further(looks: Sequence[str], own: str, place: int) -> str:
    """Pick the line or marker of the variant at `place`: the controller's `own` for the first, then the others."""
    others = [look for look in looks if look != own]
    return own if place == 0 else others[(place - 1) % len(others)]


def _shade(colour: str, light: float) -> str:
    """Mix a colour with white or, if `light` is negative, with black."""
    end, share = (255, light) if light > 0 else (0, -light)
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + share * (end - part)):02X}" for part in parts)


def label(name: str) -> str:
    """Display name of a controller."""
    base = _base(name)
    return PALETTE[name].label if name in PALETTE else name if base is None else _tuned(base).label


def _base(name: str) -> str | None:
    """Controller whose tuned version `name` is (`ncc.run.controllers`); None if there is none with a style."""
    base = name.removesuffix(TUNED)
    return base if base != name and base in PALETTE else None


def _tuned(base: str) -> Style:
    """Style of a tuned controller: that of the controller, but lighter."""
    style = PALETTE[base]
    line = _further(_LINES, style.line, 1)
    return Style(f"tuned {style.label}", _shade(style.colour, _SHADES[1]), _further(_MARKERS, style.marker, 1), line)
