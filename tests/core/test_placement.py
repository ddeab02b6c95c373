# SPDX-License-Identifier: BSD-3-Clause
"""PICC's placement: gathering, covering and clusters by hand."""

import numpy as np
import pytest

from ncc.core.placement import closeness, clusters, cover, gather, together

RACKS = np.array([0, 0, 0, 1, 1, 1])
"""Racks of six servers."""


def test_popular_copies_of_a_rack_move_to_its_heaviest_server() -> None:
    """Server 2 has 100 x 5 and 10 x 1, server 3 of the other rack 50 x 4; the rarest copy of a rack stays."""
    sizes, frequency = np.array([100, 10, 50, 20]), np.array([5.0, 1.0, 4.0, 2.0])
    holders = np.array([[2, 4], [2, 5], [0, 3], [1, 5]])
    moved = gather(sizes, holders, RACKS, frequency, theta=2)
    assert moved.tolist() == [[2, 4], [2, 5], [2, 4], [1, 5]], "rack 0: objects 0 and 2; rack 1: the same"
    assert gather(sizes, holders, RACKS, frequency, theta=9)[:, 0].tolist() == [2, 2, 2, 2]


def test_a_gathering_server_takes_what_it_has_capacity_for() -> None:
    sizes, frequency = np.array([100, 90, 80]), np.array([3.0, 2.0, 1.0])
    holders = np.array([[0], [1], [2]])
    assert gather(sizes, holders, RACKS, frequency, theta=9, capacity_bytes=300.0)[:, 0].tolist() == [0, 1, 1]
    assert gather(sizes, holders, RACKS, frequency, theta=9)[:, 0].tolist() == [0, 0, 0]


def test_a_request_asks_the_servers_that_have_most_of_it() -> None:
    assert cover(np.array([[1, 2], [3, 2], [4, 2], [4, 5]])).tolist() == [2, 2, 2, 4]


def test_correlated_objects_move_to_the_server_of_most_of_them() -> None:
    holders = np.array([[0, 3], [1, 4], [1, 5], [2, 3]])
    assert together(holders, [{0, 1, 2}]).tolist() == [[1, 3], [1, 4], [1, 5], [2, 3]]


def test_closeness_counts_requests_with_both() -> None:
    close = closeness(np.array([[0, 1, 1, 7], [0, 2, 9, 1], [2, 2, 8, 8]]), objects=3)
    assert close.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


@pytest.mark.parametrize("groups", [2, 5])
def test_planted_groups_are_found_between_the_bounds_of_the_weight(groups: int) -> None:
    rng = np.random.default_rng(groups)
    n, of = 8 * groups, np.repeat(np.arange(groups), 8)
    close = np.triu(rng.poisson(np.where(of[:, None] == of, 8.0, 0.01)), 1).astype(float)
    close += close.T
    planted = [set(np.flatnonzero(of == group).tolist()) for group in range(groups)]
    assert sorted(clusters(close, 2.0), key=min) == planted
    assert len(clusters(close, 500.0)) == n
