# SPDX-License-Identifier: BSD-3-Clause
"""Figures of runs, evaluations, trainings and policies. Each is a file, PNG, SVG or PDF by its suffix.

Every function takes the `path` that it writes to. `ncc.results.notebook.shown` displays the figure in a notebook.
`ncc.results.palette` has the style of each controller.
"""

from ncc.results.plot.canvas import DPI, laid_out, new_figure, save_figure
from ncc.results.plot.epochs import epoch_timeline
from ncc.results.plot.learning import held_out_curve, learning_curve
from ncc.results.plot.series import flow_timeline, port_timeline, request_timeline, window_timeline
from ncc.results.plot.slowdown import FlowPoints, fct_by_size, slowdown_cdf

__all__ = [
    "DPI",
    "FlowPoints",
    "epoch_timeline",
    "fct_by_size",
    "flow_timeline",
    "held_out_curve",
    "laid_out",
    "learning_curve",
    "new_figure",
    "port_timeline",
    "request_timeline",
    "save_figure",
    "slowdown_cdf",
    "window_timeline",
]
