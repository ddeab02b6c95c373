# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of a host's shortest flow among its neighbours', by which rate limits serve short flows first."""

from math import log, log1p

import numpy as np
import pytest

from ncc.core.flows import BoolArray, FloatArray
from ncc.envs.observation import ObservationSpec, SharedObserver, names_of, obs_dim
from ncc.harness.oracles import ALIKE, SLACK_PERIODS, claims
from tests.envs.cases import measured, observer, rack, shown

SPEC = ObservationSpec(neighbours="ranked")
FOUR = rack()
NAMES = names_of(SPEC, 0)


def room_before(
    next_bytes: FloatArray, queued: BoolArray, claimed: FloatArray, slack: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the rate that hosts with much shorter flows leave of 2 Gbit/s, and numbers of hosts with equal flows."""
    others = queued & ~np.eye(len(queued), dtype=np.bool_)
    shorter = others & (next_bytes + slack < next_bytes[:, None] / ALIKE)
    same = others & ~shorter & ~shorter.T  # neither goes before the other
    return np.maximum(2e9 - shorter @ claimed, 0.0), 1.0 + same.sum(axis=1)


def test_ranks_by_hand() -> None:
    # Two Gbit/s of uplink for hosts of one; next flows of 0.1, 0.3 and 3 MB, and an idle host.
    state = measured(FOUR, throughput_bps=1e9, queued_flows=[1, 2, 1, 0], next_bytes=[100e3, 300e3, 3e6, 0])
    before = shown(SPEC, measured(FOUR), state)
    np.testing.assert_allclose(before["room after shorter"], 1, err_msg="nothing has arrived from the others yet")
    obs = shown(SPEC, measured(FOUR), state, state)
    # In units of what a link carries in a period of 1 ms: 125 KB.
    scaled = [log1p(size / 125e3) / log1p(100) for size in (100e3, 300e3, 3e6, 0)]
    np.testing.assert_allclose(obs["next bytes"], scaled, rtol=1e-5)
    np.testing.assert_allclose(obs["next bytes before"], scaled, rtol=1e-5)
    np.testing.assert_allclose(obs["queued flows before"], np.log1p([1, 2, 1, 0]) / log1p(30), rtol=1e-5)
    # 3 MB is much more than the two others have, which leave 2 - 2 links; those differ by less than 2 periods' worth.
    np.testing.assert_allclose(obs["room after much shorter"], [1, 1, 0, 1])
    np.testing.assert_allclose(obs["room after shorter"], [1, 1, 0, 1])
    np.testing.assert_allclose(obs["share among alike"], [1, 1, 0, 2 / 3], rtol=1e-6)


def test_the_constants_of_a_scenario() -> None:
    obs = shown(SPEC, measured(FOUR))
    np.testing.assert_allclose(obs["static share"], 1 + log(0.5) / log(100), rtol=1e-6)
    buffer = FOUR.network().reach_bytes(FOUR.network().neighbourhoods[0].uplink_port)
    np.testing.assert_allclose(obs["buffer"], log1p(buffer * 8 / 2e6) / log1p(100), rtol=1e-6)
    assert (obs["period"] > 0).all()


@pytest.mark.parametrize("neighbours", ["ranked", "pooled"])
def test_it_does_not_matter_which_neighbour_is_which(neighbours: str) -> None:
    rng = np.random.default_rng(1)
    values = {"next_bytes": rng.integers(1, 10**6, 4) * 1.0, "queued_flows": np.array([1, 1, 0, 3])}
    values |= {"throughput_bps": rng.random(4) * 1e9, "wait_s": rng.random(4)}
    turned = {name: np.concatenate([column[:1], column[1:][::-1]]) for name, column in values.items()}
    seen = []
    for given in (values, turned):
        one = observer(ObservationSpec(neighbours=neighbours))  # type: ignore[arg-type]
        one.observe(measured(FOUR, **given))  # type: ignore[arg-type]
        seen.append(one.observe(measured(FOUR, **given))[0])  # type: ignore[arg-type]
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-6)


@pytest.mark.parametrize("ages", [False, True])
def test_hidden_neighbours_are_not_observed(ages: bool) -> None:
    spec = ObservationSpec(neighbours="none", ages=ages)
    seen = observer(spec)
    loud = measured(FOUR, throughput_bps=[0, 1e9, 1e9, 1e9], queued_flows=[0, 9, 9, 9], next_bytes=[0, 1e6, 1e6, 1e6])
    seen.observe(loud)
    obs = seen.observe(loud)
    assert obs.shape == (4, obs_dim(spec, FOUR)) == (4, 8 + ages)
    quiet = observer(spec)
    quiet.observe(measured(FOUR))
    np.testing.assert_array_equal(obs[0], quiet.observe(measured(FOUR))[0])


@pytest.mark.parametrize("loss_frac", [0.0, 1e-12])
def test_a_ceiling_hides_how_large_and_not_who_is_larger(loss_frac: float) -> None:
    scenario = FOUR.replace(sharing_loss_frac=loss_frac)
    state = measured(FOUR, throughput_bps=1e9, queued_flows=[1, 1, 1, 0], next_bytes=[30e6, 300e6, 30e3, 0.0])
    shown = {}
    for ceiling in (3.0, 1.0):
        seen = SharedObserver(SPEC.replace(ceiling=ceiling))
        seen.reset(scenario)
        seen.observe(state)
        shown[ceiling] = seen.observe(state)
    np.testing.assert_array_equal(shown[1.0], np.minimum(shown[3.0], 1))
    obs = dict(zip(NAMES, shown[1.0].T, strict=True))
    np.testing.assert_array_equal(obs["next bytes"][:2], 1)
    assert obs["room after much shorter"][1] == 0
    assert obs["room after much shorter"][0] == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_host_ranks_itself_as_the_oracle_does(seed: int) -> None:
    """One rule in two places: the oracle's in bytes, the observation's in shared numbers; alike without a delay."""
    rng = np.random.default_rng(seed)
    queued = rng.integers(0, 3, 4)
    next_bytes = np.where(queued > 0, np.exp(rng.uniform(np.log(1e3), np.log(1e7), 4)), 0.0)
    link = np.full(4, 1e9)
    limit, sent = rng.choice([3e8, 1e9, np.inf], 4), rng.choice([0.0, 1e8, 2.9e8, 1e9], 4)
    state = measured(FOUR, rate_limit_bps=limit, throughput_bps=sent, queued_flows=queued, next_bytes=next_bytes)
    obs = shown(SPEC, state, state)
    slack = SLACK_PERIODS * link * FOUR.period_s / 8
    room, peers = room_before(next_bytes, queued > 0, claims(sent, limit, link), slack)
    busy = queued > 0  # who has nothing queued is not asked
    np.testing.assert_allclose(obs["room after much shorter"][busy], np.minimum(room / 1e9, 1)[busy], rtol=1e-5)
    np.testing.assert_allclose(obs["share among alike"][busy], np.minimum(room / peers / 1e9, 1)[busy], rtol=1e-5)
