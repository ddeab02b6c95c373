# SPDX-License-Identifier: BSD-3-Clause
from math import log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ncc.core.errors import ConfigError, DatapathError
from ncc.core.scenario import Scenario
from ncc.core.topologies import LeafSpine, Rack
from ncc.core.workload import Permutation
from ncc.envs.observation import HIGH, LOW, ObservationSpec, SharedObserver, names_of, obs_dim, spec
from ncc.envs.observation.spec import COLUMN_LOW, FEATURES
from ncc.envs.scales import scales_of
from tests.envs.cases import measured, observer, rack

FOUR = rack()
BASE_S = float(scales_of(FOUR).base_rtt_s[0])
POOLED = ObservationSpec(neighbours="pooled")
POOLED_NAMES = names_of(POOLED, 0)


def test_sixteen_hosts_see_53_numbers() -> None:
    scenario = rack(hosts=16)
    assert obs_dim(ObservationSpec(), scenario) == observer(scenario=scenario).obs_dim == 6 + 3 * 15 + 2 == 53
    assert observer(scenario=scenario).observe(measured(scenario)).shape == (16, 53)


def test_own_state_by_hand() -> None:
    m = measured(
        FOUR,
        rate_limit_bps=[5e8, np.inf, 1e9, 1e7],
        rtt_s=[BASE_S, 3 * BASE_S, 21 * BASE_S, BASE_S / 2],
        goodput_bps=[4e8, 0, 1e9, 5e6],
        wait_s=[0, 1e-3, 100e-3, 0],
        queued_bytes=[0, 125_000, 12_500_000, 0],
        queued_flows=[0, 1, 30, 0],
    )
    own = observer().observe(m)[:, :6]
    np.testing.assert_allclose(own[:, 0], [0.5, 1, 1, 0.01], rtol=1e-6)
    # ln(1 + (d/base - 1)) / ln(1 + 20); the last path is shorter than the base.
    np.testing.assert_allclose(own[:, 1], np.log([1, 3, 21, 0.5]) / np.log(21), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(own[:, 2], [0.4, 0, 1, 0.005], rtol=1e-6)
    np.testing.assert_allclose(own[:, 3], [0, log1p(1) / log1p(100), 1, 0], rtol=1e-5)
    # One period of 1 Gbit/s carries 125 kB.
    np.testing.assert_allclose(own[:, 4], [0, log1p(1) / log1p(100), 1, 0], rtol=1e-5)
    np.testing.assert_allclose(own[:, 5], [0, log1p(1) / log1p(30), 1, 0], rtol=1e-5)


def test_neighbours_are_ordered_around_the_rack_and_one_period_old() -> None:
    seen = observer()
    sent = np.array([1e8, 2e8, 3e8, 4e8])
    first = measured(FOUR, throughput_bps=sent, queued_flows=2, wait_s=6e-3, queued_bytes=125_000)
    seen.observe(measured(FOUR))
    before = seen.observe(first)
    after = seen.observe(measured(FOUR))
    neighbours = after[:, 6:-2].reshape(4, 3, 3)
    assert not before[:, 6:-2].any(), "what others do now is not known yet"
    np.testing.assert_allclose(neighbours[1, :, 0], [0.3, 0.4, 0.1], rtol=1e-6)
    np.testing.assert_allclose(neighbours[3, :, 0], [0.1, 0.2, 0.3], rtol=1e-6)
    np.testing.assert_allclose(neighbours[:, :, 1], log1p(3) / log1p(100), rtol=1e-5)  # 6 ms over 2 flows, in periods
    np.testing.assert_allclose(neighbours[:, :, 2], log1p(1) / log1p(100), rtol=1e-5)
    assert not seen.observe(measured(FOUR))[:, 6:].any(), "and one period later it is gone"


def test_before_the_delay_has_passed_others_look_as_at_the_start() -> None:
    scenario = rack(sharing_delay_periods=3)
    seen = observer(scenario=scenario)
    rates = [seen.observe(measured(scenario, uplink_queue_bytes=q))[0, -1] > 0 for q in (9000, 0, 0, 0, 0)]
    assert rates == [True, True, True, True, False]


def test_reset_forgets() -> None:
    seen = observer()
    loud = measured(FOUR, throughput_bps=1e9, uplink_queue_bytes=1e5)
    seen.observe(loud)
    seen.observe(loud)
    seen.reset(FOUR)
    assert not seen.observe(measured(FOUR))[:, 6:].any()


def test_entries_stay_in_range_on_the_widest_networks() -> None:
    """An uplink of 0.01 % of its hosts' links lies beyond the scale of `static share`."""
    scenario = Scenario(
        name="wide",
        topology=Rack(hosts=128, host_rate_bps=1e10, uplink_rate_bps=1e8, remote_rate_bps=1e8),
        workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
        duration_s=0.01,
    )
    seen = observer(ObservationSpec(neighbours="ranked"), scenario)
    assert seen.observe(measured(scenario)).min() == COLUMN_LOW


def test_each_host_sees_the_uplink_of_its_own_neighbourhood() -> None:
    scenario = Scenario(
        name="two",
        topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=3),
        workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
        duration_s=0.01,
    )
    seen = observer(scenario=scenario)
    obs = seen.observe(
        measured(scenario, uplink_throughput_bps=[1e9, 5e9], throughput_bps=[1e9, 2e9, 3e9, 4e9, 5e9, 6e9])
    )
    np.testing.assert_allclose(obs[:, -2], [0.1, 0.1, 0.1, 0.5, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(obs[4, [6, 9]], [0.6, 0.4], rtol=1e-6)


big = st.floats(0, 1e15)


@given(
    limit=arrays(np.float64, 4, elements=st.floats(1, 1e12) | st.just(np.inf)),
    rest=arrays(np.float64, (5, 4), elements=big),
    flows=st.integers(0, 10**9),
    uplink=arrays(np.float64, 2, elements=big),
)
def test_every_observation_is_finite_and_in_range(
    limit: np.ndarray, rest: np.ndarray, flows: int, uplink: np.ndarray
) -> None:
    seen = observer()
    m = measured(
        FOUR,
        rate_limit_bps=limit,
        throughput_bps=rest[0],
        goodput_bps=rest[1],
        rtt_s=rest[2],
        wait_s=rest[3],
        queued_bytes=rest[4],
        queued_flows=flows,
        uplink_throughput_bps=uplink[0],
        uplink_queue_bytes=uplink[1],
    )
    for _ in range(3):
        obs = seen.observe(m)
        assert obs.dtype == np.float32
        assert np.isfinite(obs).all()
        assert (obs >= LOW).all()
        assert (obs <= HIGH).all()


@pytest.mark.parametrize("name", ["goodput_bps", "rtt_s", "wait_s", "uplink_queue_bytes"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_measurement_that_is_not_finite_is_named(name: str, value: float) -> None:
    with pytest.raises(DatapathError, match=rf"epoch 7: .*not finite \({name}\)"):
        observer().observe(measured(FOUR, 7, **{name: value}))


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"kidn": "own"}, "'rtt' must have a kind and may have of, per, called and means, got kidn"),
        ({"kind": "own", "of": "rt"}, "Unknown 'of' of a feature without 'means' .* 'rt'. Did you mean 'rtt'. Known: "),
        ({"kind": "busy_share"}, "Unknown 'of' of a feature without 'means' .* Or say in 'means' what 'rtt' means"),
        (
            {"kind": "own", "of": "rt", "means": "x"},
            "Unknown 'of' of a feature of kind own .* 'rt'. Did you mean 'rtt'. Known: ",
        ),
        ({"kind": "own", "of": "uplink_queue"}, "Unknown 'of' of a feature of kind own .* 'uplink_queue'"),
        (
            {"kind": "own_before", "of": "period", "means": "x"},
            "Unknown 'of' of a feature of kind own_before .* 'period'",
        ),
        ({"kind": "mean", "of": "goodput"}, "kind mean .* 'goodput'; known: bytes, flows, limit"),
        ({"kind": "constant", "means": "x"}, "kind constant .* 'None'; known: buffer, period"),
        (None, "Unknown feature in a view .* 'rtt'; known"),
    ],
)
def test_a_table_of_features_that_is_wrong_is_refused(
    monkeypatch: pytest.MonkeyPatch, feature: dict[str, str] | None, message: str
) -> None:
    changed = {name: line for name, line in FEATURES.items() if name != "rtt"} | ({"rtt": feature} if feature else {})
    monkeypatch.setattr(spec, "FEATURES", changed)
    with pytest.raises(ConfigError, match=message):
        SharedObserver(ObservationSpec(neighbours="pooled")).reset(rack())


def test_pooled_state_by_hand() -> None:
    seen = observer(POOLED)
    seen.observe(measured(FOUR))
    loud = measured(
        FOUR,
        throughput_bps=[1e8, 2e8, 3e8, 7e8],
        queued_flows=[0, 2, 0, 1],
        wait_s=[0, 4e-3, 0, 0],
        queued_bytes=[0, 125_000, 0, 0],
        uplink_queue_bytes=512_000,
    )
    before = seen.observe(loud)
    assert not before[:, 8:15].any(), "what others do now is not known yet"
    obs = seen.observe(measured(FOUR))
    pooled = dict(zip(POOLED_NAMES, obs.T, strict=True))
    np.testing.assert_allclose(pooled["throughput mean"], [0.4, 1.1 / 3, 1 / 3, 0.2], rtol=1e-5)
    np.testing.assert_allclose(pooled["throughput max"], [0.7, 0.7, 0.7, 0.3], rtol=1e-6)
    wait = log1p(2) / log1p(100)  # 4 ms over 2 flows, in periods
    np.testing.assert_allclose(pooled["mean_wait mean"], [wait / 3, 0, wait / 3, wait / 3], rtol=1e-5)
    np.testing.assert_allclose(pooled["mean_wait max"], [wait, 0, wait, wait], rtol=1e-5)
    np.testing.assert_allclose(pooled["queued_bytes max"], np.array([1, 0, 1, 1]) * log1p(1) / log1p(100), rtol=1e-5)
    np.testing.assert_allclose(pooled["busy share"], [2 / 3, 1 / 3, 2 / 3, 1 / 3], rtol=1e-6)
    # The uplink has 2 Gbit/s, a host 1: two busy neighbours leave 2/3, one leaves 1.
    np.testing.assert_allclose(pooled["fair share"], [2 / 3, 1, 2 / 3, 1], rtol=1e-6)
    np.testing.assert_allclose(obs[:, POOLED_NAMES.index("uplink queue")], 1.0)


def test_a_host_of_its_own_has_no_neighbours() -> None:
    scenario = FOUR.replace(
        topology=LeafSpine(leaves=2, spines=1, hosts_per_leaf=1),
        workload=(("p", Permutation(hosts="hosts", size_bytes=1)),),
    )
    pooled = dict(zip(POOLED_NAMES, observer(POOLED, scenario).observe(measured(scenario)).T, strict=True))
    assert pooled.pop("fair share").tolist() == [1, 1], "the way up is its own"
    assert not np.stack(list(pooled.values())[8:]).any()
