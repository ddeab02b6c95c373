# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the front page, from two runs: `python -m docs.pictures` writes it anew."""

from pathlib import Path
from typing import Any

import numpy as np

from ncc.core.units import GBPS, MS
from ncc.envs.packetsim.datapath import DATAPATH
from ncc.harness.atomic import write_text
from ncc.harness.run import Run, eval_flow_seed, run_once
from ncc.results.notebook import scenario_of
from ncc.results.palette import styles
from ncc.results.plot.canvas import INK, new_figure, save_figure
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory

LICENCE = "<!-- SPDX-License-Identifier: BSD-3-Clause -->\n"
INCAST = Path(__file__).parent / "assets/incast.svg"
SCENARIO = ("scenario.period_s=1e-4", "scenario.duration_s=0.03")
SMOOTHED = 5
"""Epochs of 0.1 ms that a point of the first panel is the mean of: one alone holds 8 packets or 9."""


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
    """Draw what the port carries, what waits before it and the answers that are in, from the question on."""
    figure, (carried, queue, answers) = new_figure(3, width=4.9, height=5.4, rows=True, ratios=(1.2, 1, 1))
    for i, (name, look) in enumerate(styles(list(of)).items()):
        run = of[name]
        line: dict[str, Any] = {"color": look.colour, "lw": 2.4}
        columns, asked_s = run.epochs.columns, run.flows.start_s.min()
        time_ms = (run.epochs.time_s - asked_s) / MS
        rate = np.convolve(columns["uplink_throughput_bps"][:, 0] / GBPS, np.ones(SMOOTHED) / SMOOTHED, "same")
        carried.plot([*time_ms, time_ms[-1]], [*rate, 0], **line)
        queue.plot(time_ms, columns["uplink_queue_mean_bytes"][:, 0] / 1e3, **line)
        took_ms = np.sort(run.records.flows.finish_s - asked_s) / MS
        answers.step([0, *took_ms], range(len(took_ms) + 1), where="post", **line)
        answers.plot(took_ms[-1], len(took_ms), "o", color=look.colour)
        took = f"{look.label}: {took_ms.mean():.1f} ms each"
        answers.text(*((7.3, 6), (3.9, 24))[i], took, color=look.colour, ha="right", va="center")
    lost = {name: int(run.epochs.columns["uplink_dropped_pkts"].sum()) for name, run in of.items()}
    says = {
        "dctcp": (2.5, f"DCTCP:\n{lost['dctcp']} packets lost"),
        "ncc": (6.5, f"NCC:\n{lost['ncc']} packets lost"),
    }
    for name, look in styles(list(of)).items():
        at_ms, text = says[name]
        carried.text(at_ms, 0.5, text, color=look.colour, ha="center", va="center")
    network = of["dctcp"].scenario.network()
    buffer = network.port_buffer(network.neighbourhoods[0].uplink_port)
    assert buffer is not None, "a switch's port has a buffer"
    buffer_kb = buffer.size_bytes / 1e3
    queue.axhline(buffer_kb, color=INK, ls="--", lw=1.2)
    queue.text(11.5, 1.05 * buffer_kb, "the buffer is full", color=INK, ha="right", va="bottom")
    queue.set_ylim(0, 1.35 * buffer_kb)
    carried.set_ylim(0, 1.15)
    answers.set_ylim(0, 37)
    answers.set_xlim(-0.3, 11.5)
    titles = ("The port carries (Gbit/s)", "The queue in front of it (KB)", "Answers that are in")
    for axes, title in zip((carried, queue, answers), titles, strict=True):
        axes.set_title(title, loc="left", fontsize=11)
    answers.set_xlabel("ms since the question")
    save_figure(figure, path)
    licensed(path)


def licensed(path: Path, comment: str = "") -> None:
    """Begin an SVG file with its licence and a comment, and put the rest in one line."""
    head = LICENCE + (f"<!-- {comment} -->\n" if comment else "")
    write_text(path, f"{head}<svg " + " ".join(path.read_text().partition("<svg")[2].split()) + "\n")


if __name__ == "__main__":
    incast(runs())
