# SPDX-License-Identifier: BSD-3-Clause
"""Measurements of an extension module, as the rest sees them."""

from dataclasses import fields

import numpy as np
import pytest

from ncc.core.measurement import Measurement, Measurements
from ncc.core.topologies import Rack
from ncc.envs.native.blocks import _FIELDS, Blocks


@pytest.mark.parametrize("kind", [Measurement, Measurements])
def test_every_field_is_filled(kind: type) -> None:
    assert sorted(_FIELDS) == sorted(field.name for field in fields(kind))


def test_columns_are_views_of_the_blocks() -> None:
    network = Rack(hosts=3).build()
    one, many = Blocks(network), Blocks(network, 2)
    for blocks in (one, many):
        for i, array in enumerate(blocks.arrays):
            array[...] = np.arange(array.size).reshape(array.shape) + 1000 * i
    m, several = one.measurement(), many.measurements()
    np.testing.assert_array_equal(m.throughput_bps, one.arrays[0][1])
    np.testing.assert_array_equal(m.uplink_dropped_pkts, one.arrays[3][1])
    assert (m.time_s, m.epoch, m.flows_finished) == (4000e-9, 4001, 4003)
    np.testing.assert_array_equal(several.rtt_s, many.arrays[0][:, 3])
    np.testing.assert_array_equal(several[1].queued_flows, many.arrays[1][1, 1])
    np.testing.assert_array_equal(several.flows_started, many.arrays[4][:, 2])
