# SPDX-License-Identifier: BSD-3-Clause
"""Racks on the packet engine, stepped in one call: bit for bit what each is alone, on however many threads."""

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ncc.core.errors import ConfigError, DatapathError, UnknownNameError
from ncc.envs.packetsim import PacketsimDatapath
from ncc.envs.rack import RackBatch
from ncc.envs.spec import EnvSpec
from ncc.harness.datapath import HostStack
from ncc.harness.networks import Networks
from tests.envs.cases import poisson, rack, spec

SMALL = rack(poisson(0.8), periods=8)


def start(batch: Networks, what: EnvSpec, rows: int) -> None:
    for row in range(rows):
        batch.start(row, what.scenario, what.scenario.flows(row), what.stack, row)


def test_limits_that_cannot_be_used_move_no_network() -> None:
    what, limits = spec(SMALL), np.full((3, 4), np.inf)
    batch, twin = (PacketsimDatapath.batch(3, threads=2, first=0) for _ in range(2))
    start(batch, what, 3)
    start(twin, what, 3)
    for bad, message in (
        (limits[:2], r"shape \(3, 4\).*got \(2, 4\)"),
        (np.where(np.eye(3, 4, 1) > 0, 0.0, limits), r"host h1 \(index 1\) must be above 0"),
        (np.where(np.eye(3, 4, 3) > 0, np.nan, limits), r"host h3 \(index 3\) must be above 0.*got nan"),
    ):
        with pytest.raises(ConfigError, match=message):
            batch.step(bad)
    np.testing.assert_array_equal(batch.step(limits).time_s, [1e-3] * 3)
    np.testing.assert_array_equal(
        batch.step(limits).throughput_bps, [twin.step(limits), twin.step(limits)][1].throughput_bps
    )


def test_a_rack_that_cannot_start_is_named() -> None:
    with pytest.raises(UnknownNameError, match="rack 4: Unknown transport"):
        RackBatch(spec(SMALL, stack=HostStack(transport="dctpc")), PacketsimDatapath, 1, 4, 2).reset()


class Failing(PacketsimDatapath):
    """Says in its second epoch that the second network has failed, as the engine does of a controller's fault."""

    epochs = 0

    @classmethod
    def extension(cls) -> Any:
        real = super().extension()
        return SimpleNamespace(**{**vars(real), "Batch": cls.made})

    @classmethod
    def made(cls, n: int, threads: int) -> Any:
        return SimpleNamespace(put=lambda row, network: None, step=cls.stepped)

    @classmethod
    def stepped(cls, *arrays: Any) -> Any:
        cls.epochs += 1
        return (1, "flow 3 states a window of 0") if cls.epochs == 2 else None


def test_a_network_that_fails_is_named_and_all_must_start_again() -> None:
    what, limits = spec(SMALL), np.full((2, 4), np.inf)
    batch = Failing.batch(2, threads=2, first=4)
    start(batch, what, 2)
    batch.step(limits)
    with pytest.raises(DatapathError, match=r"^rack 5: The packetsim run stopped at .*: flow 3 states a window of 0"):
        batch.step(limits)
    with pytest.raises(DatapathError, match="start each of them first"):
        batch.step(limits)


def test_no_thread_is_left_and_helpers_take_no_signals() -> None:
    def helpers() -> list[str]:
        return sorted(os.listdir("/proc/self/task"))  # noqa: PTH208 - numbers, not paths

    before, pythons = helpers(), threading.active_count()
    env = RackBatch(spec(SMALL), PacketsimDatapath, 1, 0, 4, threads=3)
    play_some = np.full((4, 4), 10)
    env.reset()
    env.step(play_some)
    new = set(helpers()) - set(before)
    assert len(new) == 2
    for task in new:
        status = Path(f"/proc/self/task/{task}/status").read_text().splitlines()
        blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
        assert blocked >> (signal.SIGINT - 1) & 1
    env.close()
    assert helpers() == before
    assert threading.active_count() == pythons
