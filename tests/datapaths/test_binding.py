# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of the extension modules: arrays that do not fit are refused before anything is read or written."""

from itertools import product

import numpy as np
import pytest

from ncc.core.topologies import Dumbbell
from ncc.envs.native.blocks import Blocks
from ncc.envs.native.extension import Network
from tests.datapaths.runs import Simulator, Window, engine, fixed, flow

PAIR = fixed(Dumbbell(pairs=2), flow("s0", "r0", 1000))


def test_limits_and_measurement_blocks_must_fit(simulator: Simulator) -> None:
    with Window(simulator, PAIR) as window:
        network: Network = engine(window.datapath)
        for limits in (np.ones(1), np.ones(3), np.ones(0)):
            with pytest.raises(ValueError, match="length"):
                network.step(limits)
        for block, off_by in product(range(5), (-1, 1)):
            arrays = list(Blocks(PAIR.network()).arrays)
            arrays[block] = np.zeros([n + off_by for n in arrays[block].shape], arrays[block].dtype)
            with pytest.raises(ValueError, match="blocks of the wrong shape"):
                network.measure(*arrays)
        assert network.epoch == 0


def test_columns_of_flows_must_fit(simulator: Simulator) -> None:
    spec = simulator.extension().Spec()
    with pytest.raises(ValueError, match="differ in length"):
        spec.set_flows(*(np.zeros(n, np.int64) for n in (1, 1, 2, 1)))
