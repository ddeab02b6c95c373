# SPDX-License-Identifier: BSD-3-Clause
"""Figures of runs, evaluations, trainings and policies, each an atomically written file, PNG or SVG by its suffix.

Every function takes the `path` that it writes to; `ncc.notebook.shown` calls one for a notebook. A `narrow` figure is
for a phone: panels and legends below each other. A controller's style is that of `ncc.palette` in all figures.
"""

from ncc.plot.canvas import DPI, NARROW, new_figure, save_figure
from ncc.plot.epochs import epoch_timeline
from ncc.plot.learning import learning_curve
from ncc.plot.policy import policy_response, saliency_bars
from ncc.plot.series import flow_timeline, port_timeline, window_timeline
from ncc.plot.slowdown import BUCKETS, Bucket, FlowPoints, fct_by_size, slowdown_cdf

__all__ = [
    "BUCKETS",
    "DPI",
    "NARROW",
    "Bucket",
    "FlowPoints",
    "epoch_timeline",
    "fct_by_size",
    "flow_timeline",
    "learning_curve",
    "new_figure",
    "policy_response",
    "port_timeline",
    "saliency_bars",
    "save_figure",
    "slowdown_cdf",
    "window_timeline",
]
