# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the front page, from two runs: `python -m docs.pictures` writes it anew."""

from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.units import MS
from ncc.envs.packetsim.datapath import DATAPATH
from ncc.harness.atomic import write_text
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.results.notebook import scenario_of
from ncc.results.palette import styles
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory

LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
INCAST = Path(__file__).parent / "assets/incast.svg"
SCENARIO = ("scenario.period_s=1e-4", "scenario.duration_s=0.03")
FILM_S, FILM_MS, HELD_S = 9.0, 9.5, 3.0
"""Seconds of the film, the milliseconds of the runs that they show, and seconds for which the last picture stays."""
WIDTH, SIDE, PITCH = 480, 12, 14.5
"""Width of the picture, side of an answer's square, and the distance of two squares."""
QUEUE = 300
"""Width of a full buffer."""


def runs() -> dict[str, Run]:
    """One question to 32 servers on packetsim, under DCTCP and under the packaged policy: the same flows."""
    scenario, policies = scenario_of("incast", *SCENARIO), LimiterFactory(folder=None)
    done = {}
    for name in ("dctcp", "ncc"):
        controller = policies.resolved(load_controller(name), scenario)
        limiter = policies(controller, scenario)
        done[name] = run_once(DATAPATH(), scenario, controller, limiter, 0, flow_seed=eval_flow_seed(0)).require_valid()
    return done


def incast(of: dict[str, Run], path: Path = INCAST) -> None:
    """Draw a film of the queue, the lost packets and the 32 answers from the question on, a run above the other.

    The animation is SMIL, which browsers play in an image. What does not play it shows the last picture.
    """
    parts = [f'<rect width="{WIDTH}" height="316" fill="white"/>']
    for i, (name, look) in enumerate(styles(list(of)).items()):
        parts += _scene(of[name], look.label, look.colour, top=10 + 138 * i)
    end = WIDTH - 16
    moves = _animated("cx", [0, FILM_MS], [8, end])
    parts.append(f'<path d="M8 290H{end}" stroke="#999"/><circle cx="{end}" cy="290" r="5">{moves}</circle>')
    parts.append(f'<text x="8" y="311">0</text><text x="{end}" y="311" text-anchor="end">{FILM_MS:g} ms</text>')
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 316" font-family="sans-serif" font-size="14"'
    write_text(path, f"{LICENCE}<svg {head}>{''.join(parts)}</svg>\n")


def _scene(run: Run, label: str, colour: str, *, top: float) -> list[str]:
    """Draw what one run does, as SVG elements from `top` down."""
    columns, asked_s = run.epochs.columns, run.flows.start_s.min()
    time_ms = (run.epochs.time_s - asked_s) / MS
    shown = (time_ms >= 0) & (time_ms < FILM_MS)
    took_ms = (run.records.flows.finish_s - asked_s) / MS
    lost = np.cumsum(columns["uplink_dropped_pkts"][:, 0])
    network = run.scenario.network()
    buffer = network.port_buffer(network.neighbourhoods[0].uplink_port)
    assert buffer is not None, "a switch's port has a buffer"
    waiting = QUEUE * columns["uplink_queue_mean_bytes"][shown, 0] / buffer.size_bytes
    says = f"{label}: {took_ms.mean():.1f} ms each, {lost[-1]:.0f} packets lost"
    parts = [f'<text x="8" y="{top + 14}" fill="{colour}" font-weight="bold">{says}</text>']
    for place, finish_ms in enumerate(took_ms):
        fills = _animated("fill", [0, finish_ms], ["#ddd", colour], mode="discrete")
        x = 8 + PITCH * place
        parts.append(f'<rect x="{x:g}" y="{top + 26}" width="{SIDE}" height="{SIDE}" fill="{colour}">{fills}</rect>')
    losing = QUEUE * lost[shown] / (10 * len(took_ms))  # a bar as long as the buffer's: 10 packets of each answer
    bars = (("queue", "#777", waiting, 54), ("lost", "#c00", losing, 82))
    for what, fill, widths, down in bars:
        grows = _animated("width", time_ms[shown].tolist(), widths.round(1).tolist())
        y = top + down
        parts.append(f'<text x="8" y="{y + 14}">{what}</text>')
        parts.append(f'<rect x="70" y="{y}" width="{widths[-1]:.1f}" height="18" fill="{fill}">{grows}</rect>')
    parts.append(f'<path d="M{70 + QUEUE} {top + 50}v26" stroke="black" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{76 + QUEUE}" y="{top + 68}">buffer full</text>')
    return parts


def _animated(attribute: str, at_ms: list[float], values: list[Any], mode: str = "linear") -> str:
    """Write a SMIL element that gives an attribute values at times of the runs, and keeps the last to the end."""
    times = [0.0, *(FILM_S / (FILM_S + HELD_S) * at / FILM_MS for at in at_ms[1:])]
    ends = ([*times, 1.0], [*values, values[-1]])
    key_times, texts = (
        ";".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in end) for end in ends
    )
    how = f'calcMode="{mode}" dur="{FILM_S + HELD_S:g}s" repeatCount="indefinite"'
    return f'<animate attributeName="{attribute}" values="{texts}" keyTimes="{key_times}" {how}/>'


def licensed(path: Path, comment: str = "") -> None:
    """Begin an SVG file with its licence and a comment, and put the rest in one line."""
    head = LICENCE + (f"<!-- {comment} -->\n" if comment else "")
    write_text(path, f"{head}<svg " + " ".join(path.read_text().partition("<svg")[2].split()) + "\n")


if __name__ == "__main__":
    incast(runs())
