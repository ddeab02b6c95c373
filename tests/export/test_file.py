# SPDX-License-Identifier: BSD-3-Clause
"""Policy files: what is exported comes back, and what contradicts itself is refused with the reason."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.agents.export.container import MAX_BYTES
from ncc.agents.packaged import FOLDER, packaged_names, packaged_policy
from ncc.agents.policy import MlpPolicy, load_policy
from ncc.core.errors import ConfigError, ResultError
from ncc.deployed import PolicyFile
from ncc.deployed.file import packed, policy_file_from
from tests.export.files import exported, header, with_header, with_parts
from tests.house.files import ROOT


def opened(data: bytes) -> PolicyFile:
    return policy_file_from(data, "x")


@pytest.mark.parametrize("name", packaged_names())
def test_every_packaged_policy_makes_the_round_trip(name: str) -> None:
    data = exported(name)
    assert len(data) < MAX_BYTES
    found, (policy, meta) = opened(data), load_policy(packaged_policy(name, FOLDER))
    for (weight, bias), (kept, kept_bias) in zip(policy.layers, found.policy.layers, strict=True):
        assert weight.tobytes() == kept.tobytes()
        assert bias.tobytes() == kept_bias.tobytes()
    plain = found.header.to_dict()
    for part in ("observation", "action", "stack"):
        assert meta[part] == json.loads(json.dumps(plain[part]))
    assert found.header.training == {part: meta[part] for part in ("scenario", "families", "training")}
    assert (found.header.name, found.header.origin.source) == (name, name)
    assert found.header.origin.recipe
    assert found.header.period_s == 1e-4
    assert found.header.trained.period_s[0] in (2e-5, 1e-4)
    assert found.header.fallback.stack.transport == "dctcp"
    assert packed(found.header, found.policy) == data, "what was read makes the same file"


def test_equal_runs_make_equal_files_in_other_processes_too() -> None:
    code = "import sys; from tests.export.files import exported; sys.stdout.buffer.write(exported())"
    made = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert made == [exported(), exported()]


def test_reading_takes_numpy_and_msgspec_only() -> None:
    code = (
        "import sys; from ncc.deployed import load_policy_file; "
        "tops = {name.split('.')[0] for name in sys.modules if not name.startswith('_')}; "
        "print(*sorted(tops - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"ncc", "numpy", "msgspec", "typing_extensions", "cython_runtime"}


def test_a_newer_version_is_refused_as_such_whatever_else_it_has() -> None:
    def newer(plain: dict[str, Any]) -> None:
        plain.clear()
        plain.update(kind="ncc-policy-file", format=3, all_else="is new")

    for data in (with_header(newer), with_header(lambda plain: plain.update(format=3))):
        with pytest.raises(ResultError, match=r"^x has format '3' of policy files and this ncc reads format 2: use"):
            opened(data)
    for other in (0, True, None, "1", 1.5, [1]):
        with pytest.raises(ResultError, match="and this ncc reads format 2"):
            opened(with_header(lambda plain, other=other: plain.update(format=other)))  # type: ignore[misc]
    with pytest.raises(ResultError, match="not of kind ncc-policy-file"):
        opened(with_header(lambda plain: plain.update(kind="other")))


CONTRADICTIONS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda p: p["layers"].pop(), "the policy has 64 actions, its action table 14"),
    (lambda p: p["layers"][0].__setitem__(1, 26), "neighbours 'ranked' have 25 numbers, got 26"),
    (lambda p: p["layers"][1].__setitem__(0, 32), "layer 1 has 32 outputs, but layer 2 takes 64"),
    (lambda p: p["layers"].__setitem__(0, [10**9, 25]), r"layers\[0\] must be"),
    (lambda p: p["observation"].update(neighbours="each"), "neighbours one by one|needs observation.neighbours"),
    (lambda p: p["observation"].update(neighbours="none"), "have 8 numbers, got 25"),
    (lambda p: p["observation"].update(rtt_scale=0), "rtt_scale"),
    (lambda p: p["observation"].update(ceiling=0.5), "ceiling must be at least 1"),
    (lambda p: p["entries"].reverse(), "entries is not what"),
    (lambda p: p.update(entry_range=[0, 1]), "entry_range is not what"),
    (lambda p: p.update(neighbours=15), "neighbours is not what"),
    (lambda p: p["action"].update(shares=[1.0, 2.0]), "has 14 actions, its action table 3"),
    (lambda p: p["action"].update(kind="log"), "action table 0"),
    (lambda p: p["table"]["multiples"].__setitem__(3, 9.0), "table is not what"),
    (lambda p: p["table"].update(unit="link rate"), "table is not what"),
    (lambda p: p.update(period_s=0.01), "2e-05 to 0.001 s, got 0.01"),
    (lambda p: p.update(period_s=-1), "period_s must be"),
    (lambda p: p["limits"].update(min_rate_frac=0), "min_rate_frac"),
    (lambda p: p["limits"].update(max_rate_frac=0.001), "must not exceed max_rate_frac"),
    (lambda p: p["limits"].update(fall_ratio=1.0), "fall_ratio"),
    (
        lambda p: p["fallback"].update(limit={"kind": "policy"}),
        "must be a controller that limits no rates, got 'dctcp'",
    ),
    (lambda p: p["fallback"]["stack"].update(transport="a b"), "transport"),
    (lambda p: p["stack"].pop("order"), ""),
    (lambda p: p.update(surprise=1), "no field 'surprise'"),
    (lambda p: p.pop("limits"), "limits is missing"),
    (lambda p: p["origin"].update(policy_sha256="x"), "policy_sha256"),
    (lambda p: p.update(name="a\x1b[31m"), "name must be"),
]


@pytest.mark.parametrize(("change", "reason"), CONTRADICTIONS)
def test_headers_that_contradict_themselves_are_refused(
    change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    data = with_header(change)
    if not reason:
        assert opened(data).header.stack.order == "fifo"
        return
    with pytest.raises(ResultError, match=f"^x contradicts itself or is damaged: .*({reason})") as refused:
        opened(data)
    assert "\n" not in str(refused.value)
    assert str(refused.value).isprintable()


def test_weights_and_model_must_be_those_that_are_described() -> None:
    weights = np.concatenate([part.ravel() for layer in opened(exported()).policy.layers for part in layer])
    for data, reason in (
        (with_parts(weights__f32=weights[:-1].tobytes()), "has 26932 bytes, not four for each"),
        (
            with_parts(weights__f32=(weights + 1).tobytes()),
            "model.onnx is not the model that policy.json and",
        ),
        (with_parts(weights__f32=np.full_like(weights, np.nan).tobytes()), "weights that are not finite"),
        (with_parts(model__onnx=b""), "model.onnx is not the model that"),
        (with_parts(model__onnx=None), "must have the parts"),
        (with_parts(more=b"x"), "must have the parts"),
        (with_parts(policy__json=b"\xff"), "is not JSON"),
        (with_parts(policy__json=b"[1]"), "not of kind"),
        (with_parts(policy__json=b'{"format": 1e999}'), "is not JSON"),
        (with_parts(policy__json=b"[" * 500_000), "is not JSON"),
    ):
        with pytest.raises(ResultError, match=f"^x .*{reason}"):
            opened(data)


def test_a_model_that_computes_something_else_with_the_same_numbers_is_refused() -> None:
    model = opened(exported()).model
    spliced = {
        "another operator": model.replace(b"\x04Tanh", b"\x04Relu"),
        "weights not transposed": model.replace(b"\x06transB\x18\x01", b"\x06transB\x18\x00"),
        "a layer left out": model.replace(b"\x07hidden0", b"\x07affine0"),
        "something more": model + b"\x32\x01x",
    }
    for what, other in spliced.items():
        assert other != model, what
        with pytest.raises(ResultError, match=r"contradicts itself: model.onnx is not the model that"):
            opened(with_parts(model__onnx=other))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=500)
@given(st.data())
def test_any_change_of_the_header_is_understood_or_refused(data: st.DataObject) -> None:
    """With all checksums made anew: what somebody could do who writes such a file by hand."""
    plain = header()
    for part in ("recipe", "facts"):
        plain["origin"][part] = {}
    plain["training"] = {}
    place: Any = plain
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or data.draw(st.booleans()):
            break
        place = inner
    if data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(PLAIN)
    changed = with_parts(policy__json=json.dumps(plain).encode())
    found, refused = None, ""
    try:
        found = opened(changed)
    except ResultError as error:
        refused = str(error)
    if found is None:
        assert refused.startswith("x ")
        assert refused.isprintable(), "one line, and nothing that a terminal would obey"
        return
    assert found.policy.obs_dim == found.header.obs_dim == len(found.header.entries)
    assert found.policy.n_actions == len(found.header.table.multiples)


def test_a_policy_too_large_for_a_file_is_refused() -> None:
    found = opened(exported())
    wide = 4096
    shapes = [(wide, 25), (14, wide)]
    layers = [(np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)) for shape in shapes]
    with pytest.raises(ConfigError, match=r"may have 1000000 bytes and this would have 1\d{6}: train a smaller policy"):
        packed(found.header.replace(layers=tuple(shapes)), MlpPolicy(layers))
    with pytest.raises(ConfigError, match="the header's layers are"):
        packed(found.header, MlpPolicy(layers))
