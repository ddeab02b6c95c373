# SPDX-License-Identifier: BSD-3-Clause
"""The policy file and its forward pass; none of this may need a training framework."""

import json
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.agents.arrays import write_arrays
from ncc.agents.policy import KIND, VERSION, Layer, MlpPolicy, load_policy, save_policy
from ncc.core.errors import ConfigError, ResultError


def layers(*sizes: int, seed: int = 1) -> list[Layer]:
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((out, inputs), np.float32), rng.standard_normal(out).astype(np.float32))
        for inputs, out in pairwise(sizes)
    ]


def unchanged(n_actions: int) -> MlpPolicy:
    """A policy whose logits are what it observes."""
    return MlpPolicy([(np.eye(n_actions, dtype=np.float32), np.zeros(n_actions, np.float32))])


def test_forward_by_hand() -> None:
    hidden = (np.array([[1.0, -2.0]], np.float32), np.array([0.5], np.float32))
    output = (np.array([[2.0], [-1.0]], np.float32), np.array([0.0, 0.25], np.float32))
    # tanh(3 - 2 + 0.5) = tanh(1.5) = 0.905148; logits 2 * 0.905148 and 0.25 - 0.905148
    logits = MlpPolicy([hidden, output]).logits(np.array([[3.0, 1.0]], np.float32))
    assert logits == pytest.approx(np.array([[1.810297, -0.655148]]), abs=1e-6)
    assert logits.dtype == np.float32


def test_greedy_takes_the_largest_logit_of_each_host() -> None:
    policy = unchanged(3)
    obs = np.array([[0.1, 0.9, 0.3], [5, 4, 3], [-3, -2, -1]], np.float32)
    assert policy.act(obs, None).tolist() == [1, 0, 2]


def test_sampling_follows_the_softmax() -> None:
    probabilities = np.array([0.5, 0.3, 0.0, 0.2])
    logits = np.log(np.tile(np.maximum(probabilities, 1e-30), (40_000, 1))).astype(np.float32)
    drawn = np.bincount(unchanged(4).act(logits, np.random.default_rng(3)), minlength=4) / 40_000
    # 5 standard deviations of the largest bin: 5 * sqrt(0.25 / 40000) = 0.0125
    assert drawn == pytest.approx(probabilities, abs=0.0125)
    assert drawn[2] == 0


def test_round_trip_keeps_every_bit_and_the_meta(tmp_path: Path) -> None:
    meta = {"observation": {"scale": 2.5}, "tags": ["a", "b"], "seed": 3}
    save_policy(tmp_path / "deep" / "policy.npz", layers(5, 8, 8, 4), meta)
    policy, loaded = load_policy(tmp_path / "deep" / "policy.npz")
    assert loaded == meta
    assert (policy.obs_dim, policy.n_actions) == (5, 4)
    for (weight, bias), (w, b) in zip(layers(5, 8, 8, 4), policy.layers, strict=True):
        assert (weight == w).all()
        assert (bias == b).all()
    (file,) = (tmp_path / "deep").iterdir()
    with zipfile.ZipFile(file) as archive:
        assert sorted(archive.namelist()) == ["b0.npy", "b1.npy", "b2.npy", "meta.npy", "w0.npy", "w1.npy", "w2.npy"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "at least one layer"),
        ([(np.ones((2, 3)), np.ones(3))], "layer 0 must have weights"),
        ([(np.ones(3), np.ones(3))], "layer 0 must have weights"),
        ([(np.ones((2, 3)), np.ones(2)), (np.ones((4, 5)), np.ones(4))], "layer 0 has 2 outputs.*takes 5 inputs"),
        ([(np.full((2, 3), np.nan), np.ones(2))], "not finite"),
    ],
)
def test_layers_that_make_no_policy_are_refused(bad: list[Layer], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        save_policy(tmp_path / "policy.npz", bad, {})
    assert list(tmp_path.iterdir()) == []


def test_meta_must_be_json_and_leave_reserved_keys_alone(tmp_path: Path) -> None:
    cases = (
        ({"when": object()}, "plain JSON"),
        ({"loss": float("nan")}, "plain JSON"),
        ({"obs_dim": 9}, "keys obs_dim"),
    )
    for meta, message in cases:
        with pytest.raises(ConfigError, match=message):
            save_policy(tmp_path / "policy.npz", layers(2, 3), meta)


def test_observations_that_do_not_fit_are_refused() -> None:
    policy = MlpPolicy(layers(5, 4))
    with pytest.raises(ConfigError, match=r"\[\.\.\., 5\], got \[6, 7\]"):
        policy.act(np.ones((6, 7), np.float32), None)
    with pytest.raises(ConfigError, match="finite"):
        policy.act(np.full((6, 5), np.nan, np.float32), None)


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "plain.npz", w0=np.ones((2, 2)))
    write_arrays(tmp_path / "other.npz", "ncc-something", 1, {}, {})
    write_arrays(tmp_path / "newer.npz", KIND, VERSION + 1, {}, {})
    for name, message in (
        ("none.npz", "there is no ncc-policy at"),
        (".", "cannot read"),
        ("text.npz", "damaged or not an ncc-policy"),
        ("plain.npz", "damaged or not an ncc-policy"),
        ("other.npz", "says it is 'ncc-something'"),
        ("newer.npz", f"format version {VERSION + 1}"),
    ):
        with pytest.raises(ResultError, match=message):
            load_policy(tmp_path / name)


def test_contradictions_inside_a_file_are_refused(tmp_path: Path) -> None:
    path, good = tmp_path / "policy.npz", {"w0": np.ones((2, 3), np.float32), "b0": np.ones(2, np.float32)}
    meta = {"activation": "tanh", "obs_dim": 3, "n_actions": 2}
    cases = [
        ({**good, "w1": np.ones((2, 2), np.float32)}, meta, "must hold weights"),
        ({}, meta, "does not hold a usable policy"),
        ({**good, "b0": np.ones(3, np.float32)}, meta, "does not hold a usable policy"),
        (good, {**meta, "obs_dim": 4}, r"states \(obs_dim, n_actions\) = \(4, 2\)"),
        (good, {**meta, "activation": "relu"}, "tanh"),
    ]
    for arrays, stated, message in cases:
        write_arrays(path, KIND, VERSION, arrays, stated)
        with pytest.raises(ResultError, match=message):
            load_policy(path)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    meta = np.frombuffer(json.dumps({"kind": KIND, "version": VERSION}).encode(), np.uint8)
    np.savez(path, meta=meta, w0=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ResultError, match="damaged or not an ncc-policy"):
        load_policy(path)
    with pytest.raises(ConfigError, match="plain numbers"):
        write_arrays(path, KIND, VERSION, {"w0": np.array([None])}, {})


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "policy.npz"
    save_policy(path, layers(3, 4, 2), {"note": "x"})
    return path.read_bytes()


@given(data=st.data())
def test_a_damaged_file_is_refused_or_reads_the_same(
    data: st.DataObject, whole_file: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    at = data.draw(st.integers(0, len(whole_file) - 1))
    cut = data.draw(st.booleans())
    damaged = bytearray(whole_file[:at] if cut else whole_file)
    if not cut:
        damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged)
    try:
        policy, meta = load_policy(path)
    except ResultError:
        return
    assert not cut
    assert meta == {"note": "x"}
    for (weight, bias), (w, b) in zip(layers(3, 4, 2), policy.layers, strict=True):
        assert (weight == w).all()
        assert (bias == b).all()
