# SPDX-License-Identifier: BSD-3-Clause
"""Trials of datapaths before a training."""

import os

import pytest

from ncc.core.errors import WorkerDiedError
from ncc.results import training
from ncc.run.compose import composed
from ncc.run.plan import TrainPlan, planned
from tests.mains.commands import SYNC, TINY


def ends(*_: object) -> float:
    """End the process, as a simulator that aborts."""
    os._exit(3)


def test_a_datapath_that_ends_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TrainPlan.from_plain(planned(composed("train", [*TINY, *SYNC, "evaluation.datapaths=[packetsim]"])))
    monkeypatch.setattr(training, "_probe", ends)
    with pytest.raises(WorkerDiedError, match="datapath packetsim ended its process when tried out"):
        training._epochs_per_s(plan, 1)
