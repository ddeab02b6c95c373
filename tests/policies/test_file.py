# SPDX-License-Identifier: BSD-3-Clause
"""Policy files: an exported policy comes back, and a file that was changed or contradicts itself is refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.agents.arrays import packed_arrays
from ncc.agents.policy import (
    FORMAT,
    KIND,
    MAX_BYTES,
    MlpPolicy,
    load_policy,
    packaged_policy,
    read_bytes,
)
from ncc.core.errors import ConfigError, ResultError
from ncc.policies import PolicyFile, load_policy_file
from ncc.policies.file import packed, policy_file_from
from tests.host.policies import residual
from tests.policies.files import HOST_POLICIES, exported, header, tensors, with_header, with_metadata, with_tensors
from tests.support.tables import table


def opened(data: bytes) -> PolicyFile:
    return policy_file_from(data, "x")


def test_a_policy_of_thresholds_is_none_for_hosts() -> None:
    with pytest.raises(ResultError, match="x sets thresholds and no rates: it runs in simulations only"):
        opened(packaged_policy("auto").read_bytes())


@pytest.mark.parametrize("name", HOST_POLICIES)
def test_every_packaged_policy_is_what_its_header_makes(name: str) -> None:
    data = packaged_policy(name).read_bytes()
    found, (policy, meta) = opened(data), load_policy(packaged_policy(name))
    for (weight, bias), (kept, kept_bias) in zip(policy.layers, found.policy.layers, strict=True):
        assert weight.tobytes() == kept.tobytes()
        assert bias.tobytes() == kept_bias.tobytes()
    header = found.header
    plain = json.loads(header.to_json())
    assert meta == {key: value for key, value in plain.items() if key not in ("format", "activation", "layers")}
    assert (header.name, header.origin.source, header.period_s) == (name, name, 1e-4)
    assert header.origin.recipe
    assert header.trained.period_s[0] in (1e-5, 2e-5, 1e-4)
    assert header.fallback.stack.transport == "dctcp"
    assert packed(header, found.policy) == data, "a file that was read makes the same file"


def test_any_tool_for_safetensors_opens_a_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.ncc"
    path.write_bytes(exported())
    with safetensors.safe_open(path, framework="np") as file:
        assert sorted(file.keys()) == ["b0", "b1", "b2", "w0", "w1", "w2"]
        assert json.loads(file.metadata()[KIND])["name"] == "untrained"


def test_another_format_is_refused_as_such_whatever_else_it_has() -> None:
    def newer(plain: dict[str, Any]) -> None:
        plain.clear()
        plain.update(format=FORMAT + 1, all_else="is new")

    for data in (with_header(newer), with_header(lambda plain: plain.update(format=FORMAT + 1))):
        with pytest.raises(ResultError, match=r"^x has format '6' and this ncc reads format 5: use"):
            opened(data)
    for other in (0, 3, True, None, "1", 1.5, [1]):
        with pytest.raises(ResultError, match="and this ncc reads format 5"):
            opened(with_header(lambda plain, other=other: plain.update(format=other)))  # type: ignore[misc]


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """A file with a byte flipped, cut, with bytes taken out, or random bytes, some of which begin as a file does."""
    at = st.integers(0, len(whole) - 1)
    return st.one_of(
        st.builds(lambda at, by: whole[:at] + bytes([whole[at] ^ by]) + whole[at + 1 :], at, st.integers(1, 255)),
        at.map(lambda at: whole[:at]),
        st.builds(lambda at, n: whole[:at] + whole[at + n :], at, st.integers(1, 4096)),
        st.binary(max_size=2000),
        st.binary(max_size=2000).map(lambda data: len(data).to_bytes(8, "little") + b'{"' + data),
    )


@settings(max_examples=600)
@given(st.data())
@pytest.mark.attack("8")
def test_a_damaged_file_is_refused(data: st.DataObject) -> None:
    with pytest.raises(ResultError, match=r"^x "):
        opened(data.draw(damaged(exported())))


def test_reasons_are_given() -> None:
    whole = exported()
    plain = json.dumps(header())
    for data, reason in (
        (b"", "is no policy file"),
        (whole[:1000], "is no policy file"),
        (whole[:-1], "is no policy file"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "is damaged: it is not what its header and arrays make"),
        (whole + bytes(MAX_BYTES), "has more than the 10000000 bytes"),
        (with_metadata(None), f"its metadata holds no {KIND}"),
        (with_metadata({"other": "x"}), f"its metadata holds no {KIND}"),
        (with_metadata({KIND: "no JSON"}), "is no policy file"),
        (with_metadata({KIND: "[1]"}), f"its metadata holds no {KIND}"),
        (with_metadata({KIND: "[" * 100_000}), "is no policy file"),
        (with_metadata({KIND: plain}), "is damaged"),
        (with_metadata({KIND: plain, "more": "x"}), "is damaged"),
        (with_tensors(w0=None), "must hold weights w0.. and biases b0.."),
        (with_tensors(w3=np.zeros(1, np.float32)), "must hold weights w0.. and biases b0.."),
        (with_tensors(w0=tensors()["w0"].astype(np.float64)), "in float32 for tanh layers"),
        (with_tensors(w0=tensors()["w0"][:, :-1].copy()), "the header's layers are"),
        (with_tensors(w0=np.full_like(tensors()["w0"], np.nan)), "weights that are not finite"),
        (with_tensors(w0=np.full_like(tensors()["w0"], 3e38)), r"a weight has the size 3e\+38, and 1000 is the most"),
        (with_tensors(b2=tensors()["b2"] - 1001), "and 1000 is the most"),
        (with_tensors(b0=tensors()["b0"][:, None]), "does not hold a usable policy"),
    ):
        with pytest.raises(ResultError, match=f"^x .*{reason}") as refused:
            opened(data)
        assert str(refused.value).isprintable()


def test_a_file_that_is_not_plain_is_refused_without_reading_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.ncc"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    for path, reason in (
        (pipe, "not a plain file"),
        (tmp_path, "not a plain file"),
        (tmp_path / "missing" / "x.ncc", "there is no policy file"),
        (Path("a\0b"), "cannot read the policy file"),
    ):
        with pytest.raises(ResultError, match=reason):
            load_policy_file(path)


def test_a_file_of_another_digest_is_not_even_interpreted(tmp_path: Path) -> None:
    path = tmp_path / "policy.ncc"
    path.write_bytes(exported())
    pinned = load_policy_file(path).sha256
    assert load_policy_file(path, pinned).sha256 == pinned
    for other in (with_header(lambda plain: plain.update(name="forged")), b"no policy file"):
        path.write_bytes(other)
        with pytest.raises(ResultError, match=rf"policy.ncc is not the file of --digest sha256:{pinned}, but sha256:"):
            load_policy_file(path, pinned)


def test_no_more_of_a_large_file_is_read_than_shows_that_it_is(tmp_path: Path) -> None:
    large = tmp_path / "large.ncc"
    with large.open("wb") as file:
        file.write(exported())
        file.truncate(10**10)
    assert len(read_bytes(large)) == MAX_BYTES + 1
    with pytest.raises(ResultError, match="has more than the 10000000 bytes"):
        load_policy_file(large)


def changed(where: str, *value: Any) -> bytes:
    """The file whose header has another value at a place, or none."""
    *parents, last = (int(part) if part.isdigit() else part for part in where.split("."))

    def change(plain: Any) -> None:
        for part in parents:
            plain = plain[part]
        if value:
            plain[last] = value[0]
        else:
            del plain[last]

    return with_header(change)


@pytest.mark.parametrize("row", table(__file__, "contradictions.yaml"), ids=str)
def test_headers_that_contradict_themselves_are_refused(row: list[Any]) -> None:
    *place, reason = row
    with pytest.raises(ResultError, match=f"^x contradicts itself.*: .*({reason})") as refused:
        opened(changed(*place))
    assert str(refused.value).isprintable(), "one line, and nothing that a terminal would obey"


def test_what_has_a_default_may_be_left_out() -> None:
    assert opened(changed("stack.order")).header.stack.order == "fifo"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.data())
@pytest.mark.attack("8")
def test_any_change_of_the_header_is_understood_or_refused(data: st.DataObject) -> None:
    """The checksum is made anew, as by somebody who writes such a file by hand."""
    plain = header()
    for part in ("recipe", "facts", "provenance"):
        plain["origin"][part] = {}
    plain |= {key: {} for key in ("training", "families", "scenario", "reward")}
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
    changed = packed_arrays(KIND, plain, tensors())
    found, refused = None, ""
    try:
        found = opened(changed)
    except ResultError as error:
        refused = str(error)
    if found is None:
        assert refused.startswith("x ")
        assert refused.isprintable(), "one line, and nothing that a terminal would obey"
        return
    assert found.policy.obs_dim == found.header.obs_dim
    assert found.policy.n_actions == found.header.action.n_actions


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"action": {"formula": None}}, "or the formula to null; got 'residual' and None"),
        ({"action": {"formula": "zero_delay"}}, "formula"),
        ({"action": {"kind": "shares", "formula": None, "within": None}}, "has 1 actions, its action table 14"),
        ({"observation": {"neighbours": "ranked"}}, "needs observation.neighbours 'ordered'"),
        ({"observation": {"ages": False}}, r"it must be one that observes their ages \(observation.ages\)"),
    ],
)
def test_a_residual_is_whole_or_refused(change: dict[str, Any], says: str) -> None:
    data, file = residual(opened(exported()))
    plain = json.loads(json.dumps(file.header.to_dict()))
    for part, changes in change.items():
        plain[part] = plain[part] | changes if changes else changes
    with pytest.raises(ResultError, match=says):
        opened(packed_arrays(KIND, plain, safetensors.numpy.load(data)))


def test_a_policy_too_large_for_a_file_is_refused() -> None:
    found = opened(exported())
    wide = 100_000
    shapes = [(wide, 25), (14, wide)]
    layers = [(np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)) for shape in shapes]
    with pytest.raises(ConfigError, match=r"may have 10000000 bytes and this would have 1\d{7}: train"):
        packed(found.header.replace(layers=tuple(shapes)), MlpPolicy(layers))
