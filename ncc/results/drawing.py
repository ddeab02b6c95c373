# SPDX-License-Identifier: BSD-3-Clause
"""A network as a drawing and as text: switches, hosts in blocks, links with their rates and delays.

Hosts with the same switch, group, rate and delay are one block. If there are many switches, those whose names differ
only in their number are one box as well.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncc.core.topology import NodeKind, Topology
from ncc.results.plot import new_figure, save_figure

ALL_SWITCHES, ALL_BLOCKS = 8, 8
"""Largest numbers of switches and of blocks that are drawn separately."""
STEP_X, STEP_Y = 2.1, 1.15
"""Inches between boxes."""
LEAST_X = 4.4
"""Smallest width in inches."""
_INK, _FILL = "#333333", "#f2f2f2"  # colours belong to controllers


@dataclass(frozen=True)
class Box:
    """One box of the drawing: a switch or several, or hosts."""

    text: str
    level: int
    """Height of the box: 0 for hosts, 1 for switches with hosts, 2 for switches above these, and so on."""


@dataclass(frozen=True)
class Sketch:
    """Boxes and links of a drawing."""

    boxes: Mapping[Hashable, Box]
    links: Mapping[tuple[Hashable, Hashable], Counter[tuple[float, float]]]
    """Number of links of each (rate_bps, delay_s), by the keys of two boxes, lower level first."""
    uplink: frozenset[tuple[Hashable, Hashable]]
    """Links among these that are uplinks, which neighbours share."""

    @cached_property
    def words(self) -> str:
        """The drawing in one sentence."""
        parts = [
            f"{_line(self.boxes[a].text)} to {_line(self.boxes[b].text)}: {link_text(found)}"
            for (a, b), found in self.links.items()
        ]
        return "; ".join(parts)


def link_text(found: Mapping[tuple[float, float], int]) -> str:
    """Text on the number, rate and delay of links."""
    return "; ".join(
        f"{f'{n} × ' if n > 1 else ''}{amount(rate, 'bit/s')}, {amount(delay, 's')}"  # noqa: RUF001
        for (rate, delay), n in found.items()
    )


def amount(value: float, unit: str) -> str:
    """Format an amount with a metric prefix: 4 Gbit/s, 10 µs, 30 kB."""
    if value == 0:
        return f"0 {unit}"
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if abs(value) >= scale * (1 - 1e-12) and (scale <= 1 or unit != "s"):
            return f"{value / scale:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def duration_text(seconds: float) -> str:
    """Format seconds of computing: 5 s, 12.5 min."""
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"


def sketch(network: Topology) -> Sketch:
    """Make the sketch of a network."""
    one_by_one = _sketch(network, whole=False)
    switches = sum(box.level > 0 for box in one_by_one.boxes.values())
    if switches <= ALL_SWITCHES and len(one_by_one.boxes) - switches <= ALL_BLOCKS:
        return one_by_one
    return _sketch(network, whole=True)


def topology_drawing(network: Topology, path: Path) -> None:
    """Draw the `sketch` of a network: hosts at the bottom, each switch above its neighbours, shared uplinks in bold."""
    drawn = sketch(network)
    places = _places(drawn)
    across = 1 + max(x for x, _ in places.values())
    levels = 1 + max(box.level for box in drawn.boxes.values())
    figure, (axes,) = new_figure(1, width=max(LEAST_X, STEP_X * across), height=STEP_Y * levels)
    for (a, b), found in drawn.links.items():
        (xa, ya), (xb, yb) = places[a], places[b]
        axes.plot([xa, xb], [ya, yb], color=_INK, lw=3.0 if (a, b) in drawn.uplink else 1.0, zorder=1)
        text = link_text(found).replace(", ", "\n").replace("; ", "\n")
        axes.text((xa + xb) / 2, (ya + yb) / 2, text, ha="center", va="center", fontsize=8.5, zorder=2, bbox=_paper())
    for key, (x, y) in places.items():
        box, style = drawn.boxes[key], "round,pad=0.45" if drawn.boxes[key].level == 0 else "square,pad=0.55"
        look = {"boxstyle": style, "facecolor": _FILL if box.level else "white", "edgecolor": _INK}
        axes.text(x, y, box.text, ha="center", va="center", fontsize=9.5, zorder=3, bbox=look)
    axes.set_axis_off()
    axes.set_xlim(-0.55, across - 0.45)
    axes.set_ylim(-0.42, levels - 0.62)
    save_figure(figure, path)


def _paper() -> dict[str, object]:
    return {"facecolor": "white", "edgecolor": "none", "pad": 1.0}


def _sketch(network: Topology, *, whole: bool) -> Sketch:
    """Make the sketch; `whole` merges switches whose names differ only in their number into one box."""
    levels, members = _levels(network), Counter[Hashable]()
    keys: dict[int, Hashable] = {}
    named: dict[Hashable, str] = {}
    hosts_of: dict[Hashable, list[int]] = {}
    groups_of: dict[Hashable, tuple[str, ...]] = {}
    for node, found in enumerate(network.nodes):
        if found.kind is NodeKind.SWITCH:
            keys[node] = ("switch", _stem(found.name) if whole else node)
            members[keys[node]] += 1
            named[keys[node]] = _stem(found.name)
    for node, found in enumerate(network.nodes):
        if found.kind is NodeKind.HOST:
            peer, link = network.peers[node][0][0], network.host_link(node)
            called = (group.name for group in network.groups if node in group.hosts)
            groups = tuple(dict.fromkeys(_stem(name) if whole else name for name in called))
            keys[node] = ("hosts", keys[peer], groups, link.rate_bps, link.delay_s)
            hosts_of.setdefault(keys[node], []).append(node)
            groups_of[keys[node]] = groups
    boxes: dict[Hashable, Box] = {}
    for node, found in enumerate(network.nodes):
        if (key := keys[node]) in boxes:
            continue
        if key in hosts_of:
            boxes[key] = Box(_hosts_text(network, hosts_of[key], groups_of[key]), 0)
        else:
            name = f"{members[key]} × {named[key]}" if members[key] > 1 else found.name  # noqa: RUF001
            boxes[key] = Box(name, levels[node])
    links: dict[tuple[Hashable, Hashable], Counter[tuple[float, float]]] = {}
    ends = []
    for link in network.links:
        low, high = sorted((keys[link.a], keys[link.b]), key=lambda key: boxes[key].level)
        ends.append((low, high))
        links.setdefault((low, high), Counter())[link.rate_bps, link.delay_s] += 1
    uplink = frozenset(ends[area.uplink_port // 2] for area in network.neighbourhoods)
    return Sketch(boxes, links, uplink)


def _hosts_text(network: Topology, hosts: Sequence[int], groups: Sequence[str]) -> str:
    names = [network.nodes[host].name for host in hosts]
    who = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}" if len(names) > 2 else ", ".join(names)
    count = "1 host" if len(names) == 1 else f"{len(names)} hosts"
    special = [group for group in groups if group != "hosts"]
    return f"{count}: {who}" + (f"\n({', '.join(special)})" if special else "")


def _levels(network: Topology) -> dict[int, int]:
    """Number of hops from each switch to the nearest host."""
    reached = {node: 0 for node, neighbours in enumerate(network.nodes) if neighbours.kind is NodeKind.HOST}
    frontier = list(reached)
    while frontier:
        neighbours = [peer for node in frontier for peer, _ in network.peers[node] if peer not in reached]
        level = reached[frontier[0]] + 1
        frontier = list(dict.fromkeys(neighbours))
        reached |= dict.fromkeys(frontier, level)
    return reached


def _places(drawn: Sketch) -> dict[Hashable, tuple[float, float]]:
    """Position of each box in steps: hosts side by side below their switch, a switch centred above its boxes."""
    below: dict[Hashable, list[Hashable]] = {key: [] for key in drawn.boxes}
    for a, b in drawn.links:
        if drawn.boxes[a].level < drawn.boxes[b].level:
            below[b].append(a)
    places: dict[Hashable, tuple[float, float]] = {}
    taken = 0
    for key, box in drawn.boxes.items():
        if box.level == 1:
            hosts = [child for child in below[key] if drawn.boxes[child].level == 0]
            places |= {child: (float(taken + i), 0.0) for i, child in enumerate(hosts)}
            places[key] = (taken + (len(hosts) - 1) / 2, 1.0)
            taken += len(hosts)
    for level in range(2, 1 + max(box.level for box in drawn.boxes.values())):
        last = -1.0
        row = [key for key, box in drawn.boxes.items() if box.level == level]
        middle = {key: sum(places[child][0] for child in below[key]) / len(below[key]) for key in row}
        crowded = len({round(x, 6) for x in middle.values()}) < len(row)
        for i, key in enumerate(sorted(row, key=lambda key: middle[key])):
            x = (i + 0.5) * max(taken, len(row)) / len(row) - 0.5 if crowded else max(middle[key], last + 1)
            places[key], last = (x, float(level)), x
    return places


def _stem(name: str) -> str:
    """A name without its number."""
    return name.rstrip("0123456789_")


def _line(text: str) -> str:
    return text.replace("\n", " ")
