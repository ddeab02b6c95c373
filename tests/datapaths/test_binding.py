# SPDX-License-Identifier: BSD-3-Clause
"""Arguments of the extension modules: arrays that do not fit are refused before anything is read or written."""

from collections.abc import Callable

import numpy as np
import pytest

from ncc.core.topologies import Dumbbell
from ncc.envs.native.blocks import Blocks
from ncc.envs.native.extension import Network, Spec
from tests.datapaths.runs import Simulator, Window, engine, fixed, flow

PAIR = fixed(Dumbbell(pairs=2), flow("s0", "r0", 1000))


@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("off_by", [-1, 1])
def test_measurement_blocks_must_fit(simulator: Simulator, block: int, off_by: int) -> None:
    arrays = list(Blocks(PAIR.network()).arrays)
    old = arrays[block]
    for axis in range(old.ndim):
        shape = [n + off_by * (i == axis) for i, n in enumerate(old.shape)]
        arrays[block] = np.zeros(shape, old.dtype)
        with Window(simulator, PAIR) as window, pytest.raises(ValueError, match="blocks of the wrong shape"):
            engine(window.datapath).measure(*arrays)


@pytest.mark.parametrize("limits", [np.ones(1), np.ones(3), np.ones(0)])
def test_limits_must_fit(simulator: Simulator, limits: np.ndarray) -> None:
    with Window(simulator, PAIR) as window:
        network: Network = engine(window.datapath)
        with pytest.raises(ValueError, match="length"):
            network.step(limits)
        assert network.epoch == 0


def links(**changed: np.ndarray) -> dict[str, np.ndarray]:
    plain = {
        "ends": np.array([[0, 1]]),
        "rate_bps": np.array([1e9]),
        "delay_ns": np.array([10]),
        "queues": np.array([[[-1, 0, 0, 0, -1, 0, 0, 1, -1], [1000, 0, 0, 0, -1, 0, 0, 1, -1]]]),
        "red_max_prob": np.zeros((1, 2)),
    }
    return plain | changed


def pools(**changed: np.ndarray) -> list[np.ndarray]:
    whole, real = np.ones(2, np.int64), np.ones(2)
    plain = {"size_bytes": whole, "alpha": real, "red_min_bytes": whole, "red_max_bytes": whole, "red_max_prob": real}
    return list((plain | changed).values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda spec: spec.set_links(**links(ends=np.array([[0, 2]]))), "link 0 ends at a node that does not exist"),
        (lambda spec: spec.set_links(**links(ends=np.array([[-1, 1]]))), "link 0 ends at a node that does not exist"),
        (lambda spec: spec.set_links(**links(ends=np.array([[0]]))), "wrong shape"),
        (lambda spec: spec.set_links(**links(queues=np.zeros((1, 2, 8), np.int64))), "wrong shape"),
        (lambda spec: spec.set_links(**links(queues=np.zeros((2, 2, 9), np.int64))), "differ in length"),
        (lambda spec: spec.set_links(**links(rate_bps=np.ones(2))), "differ in length"),
        (lambda spec: spec.set_pools(*pools(alpha=np.ones(1))), "differ in length"),
        (lambda spec: spec.set_pools(*pools(red_max_bytes=np.ones(3, np.int64))), "differ in length"),
        (lambda spec: spec.set_flows(*(np.zeros(n, np.int64) for n in (1, 1, 2, 1))), "differ in length"),
    ],
)
def test_columns_must_fit(simulator: Simulator, call: Callable[[Spec], None], message: str) -> None:
    spec = simulator.extension().Spec()
    spec.set_nodes(np.array([1, 0], np.uint8))
    spec.set_links(**links())
    with pytest.raises(ValueError, match=message):
        call(spec)
