# SPDX-License-Identifier: BSD-3-Clause
"""PICC's placement, and SICC's choice of servers and hubs, by hand."""

import numpy as np
import pytest

from ncc.core.placement import (
    closeness,
    clusters,
    cover,
    depths,
    gather,
    most_hubs,
    redirect,
    swarms,
    together,
    tree,
)

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


def test_a_buffer_takes_a_packet_of_each_hub() -> None:
    """Eq. 3.1 with the thesis' 100 KB, 1 Gbit/s and mean packet of 510 bytes, and with an eighth of the buffer."""
    assert most_hubs(100_000, 1e9, 1e9, 510) == 196
    assert most_hubs(12_500, 1e9, 1e9, 510) == 24
    assert most_hubs(12_500, 1e9, 4e8, 510) == 9, "slow links of hubs bring fewer packets at once"
    assert most_hubs(100, 1e9, 1e9, 510) == 1


def test_the_server_with_most_objects_of_a_rack_is_its_hub() -> None:
    hubs, swarm = swarms(np.array([5, 2, 0, 5, 2, 1, 3]), RACKS)
    assert hubs.tolist() == [2, 5]
    assert swarm.tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert swarms(np.array([1, 0, 4]), RACKS)[0].tolist() == [0, 4], "of equal ones the first"


def test_drawn_swarms_have_the_sizes_of_racks() -> None:
    at = np.array([0, 1, 2, 3, 4, 5, 0])
    racks = np.array([0, 0, 0, 0, 1, 1])
    found = [swarms(at, racks, np.random.default_rng(seed)) for seed in range(20)]
    sizes = {tuple(sorted(len(set(at[swarm == n].tolist())) for n in range(2))) for _, swarm in found}
    assert sizes == {(2, 4)}
    assert len({tuple(swarm.tolist()) for _, swarm in found}) > 5
    for hubs, swarm in found:
        assert all(hubs[n] in at[swarm == n] for n in range(2))


def test_a_tree_by_hand() -> None:
    """Hub 1 (2 objects) goes to hub 2 (3), then hub 0 (4) to it (5), then hub 2 (9) to hub 3 (8): N is 2 after two."""
    objects, one_router = np.array([4, 2, 3, 8]), np.zeros(4, np.int64)
    assert tree(objects, 4, one_router).tolist() == [-1, -1, -1, -1]
    assert tree(objects, 3, one_router).tolist() == [-1, 2, -1, -1]
    assert tree(objects, 2, one_router).tolist() == [2, 2, -1, -1]
    # Hub 3 has 8 objects and hub 2 has 9, so 3 becomes the child; with N = 1 it gives none away, as it has none.
    assert tree(objects, 1, one_router).tolist() == [2, 2, -1, 2]


def test_a_hub_gives_its_largest_children_to_its_parent_while_this_has_fewer_than_n() -> None:
    """1 under 0 (2); both under the next (4): 0 gives its child away; that hub then has two children, and N is 2."""
    objects = np.array([1, 1, 2, 9, 9])
    assert tree(objects, 3, np.zeros(5, np.int64)).tolist() == [2, 2, -1, -1, -1]


def test_hubs_are_linked_under_their_router_if_it_has_another_hub() -> None:
    objects, routers = np.array([1, 5, 3, 9]), np.array([7, 7, 8, 8])
    assert tree(objects, 2, routers).tolist() == [1, -1, 3, -1]
    assert tree(objects, 1, routers).tolist() == [1, 3, 3, -1], "no other hub under router 7: the smallest anywhere"


@pytest.mark.parametrize("most", [1, 5, 24])
def test_a_tree_has_no_cycle_and_children_with_fewer_objects(most: int) -> None:
    rng = np.random.default_rng(most)
    objects, routers = rng.integers(1, 60, 80), rng.integers(0, 9, 80)
    parent = tree(objects, most, routers)
    assert (parent < 0).sum() == most
    depth = depths(parent)
    assert (depth[parent[parent >= 0]] == depth[parent >= 0] - 1).all()
    total = objects.copy()
    for hub in np.argsort(-depth, kind="stable").tolist():
        if parent[hub] >= 0:
            total[parent[hub]] += total[hub]
    below = parent >= 0
    assert (total[below] <= total[parent[below]]).all(), "Rule 2"


def test_objects_of_the_slowest_hub_move_to_copies_of_faster_ones() -> None:
    """Rack 0 has 300 bytes and rack 1 has 100: one object of 100 moves, and both have the mean of 200."""
    sizes = np.array([100, 100, 100, 100])
    holders = np.array([[0, 1], [1, 4], [2, 5], [3, 0]])
    even = np.ones(2)
    assert redirect(sizes, holders, RACKS, even).tolist() == [0, 4, 2, 3], "the copy in the same rack does not help"
    # Rack 1 has a tenth of the speed: its 100 bytes take 1,000, and rack 0's 300 take 300, so its object moves.
    assert redirect(sizes, holders, RACKS, np.array([1.0, 0.1])).tolist() == [0, 1, 2, 0]


def test_queries_are_redirected_as_in_figure_3_3() -> None:
    """Hub i has more left than j and k: d_i has a copy under j and goes there, d_j goes to k; what has none stays."""
    sizes, i, j, k = np.full(6, 500), 0, 2, 4
    holders = np.array([[i, i + 1], [i, i + 1], [i, j], [i + 1, k], [j, j + 1], [k, k + 1]])
    rack_of = np.array([0, 0, 1, 1, 2, 2])
    assert redirect(sizes, holders, rack_of, np.ones(3)).tolist() == [i, i, j, k, j, k]


def test_redirection_leaves_hubs_with_about_the_same_bytes() -> None:
    rng = np.random.default_rng(1)
    rack_of = np.arange(3000) // 60
    sizes, holders = rng.integers(20, 1001, 1000), rng.integers(0, 3000, (1000, 3))
    at = redirect(sizes, holders, rack_of, np.ones(50))
    before, after = (np.bincount(rack_of[of], sizes, 50) for of in (holders[:, 0], at))
    assert after.sum() == before.sum()
    assert before.max() > 1.4 * before.mean()
    assert after.max() < 1.15 * after.mean()
    assert (at[:, None] == holders).any(axis=1).all(), "an object is asked of a server that has it"
