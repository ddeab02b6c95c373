# SPDX-License-Identifier: BSD-3-Clause
"""The container: of one form only, so that no byte of a policy file changes unnoticed."""

import io
import subprocess
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncc.agents.export.container import MAX_BYTES, MAX_PARTS, pack, read_bytes, sums_of, unpack
from ncc.core.errors import ConfigError, ResultError
from ncc.deployed.file import load_policy_file, policy_file_from
from tests.export.files import exported

NAMES = st.text("abcXYZ019_.", min_size=1, max_size=64)


@given(st.dictionaries(NAMES, st.binary(max_size=200), min_size=1, max_size=MAX_PARTS))
def test_parts_come_back_in_their_order_and_any_tool_opens_them(parts: dict[str, bytes]) -> None:
    packed = pack(parts)
    assert list(unpack(packed, "x").items()) == list(parts.items())
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == parts


def test_what_cannot_be_packed_is_refused() -> None:
    for parts in ({}, {"a/b": b""}, {"": b""}, {"é": b""}, {str(i): b"" for i in range(MAX_PARTS + 1)}):
        with pytest.raises(ConfigError, match="parts with names of"):
            pack(parts)
    with pytest.raises(ConfigError, match="may have 1000000 bytes"):
        pack({"a": bytes(MAX_BYTES)})


@settings(max_examples=500)
@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_flipped_byte_anywhere_is_refused(at: int, flip: int) -> None:
    data = bytearray(exported())
    data[at % len(data)] ^= flip
    with pytest.raises(ResultError, match=r"^x "):
        policy_file_from(bytes(data), "x")


def test_a_flipped_bit_of_any_byte_that_is_not_a_part_is_refused() -> None:
    """All of them: headers of parts, the directory and the end."""
    whole = exported()
    inside = set()
    for part in unpack(whole, "x").values():
        start = whole.index(part)
        inside |= set(range(start, start + len(part)))
    outside = set(range(len(whole))) - inside
    assert len(outside) > 300
    for at in outside:
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        with pytest.raises(ResultError):
            policy_file_from(bytes(data), "x")


@settings(max_examples=500)
@given(st.integers(min_value=0))
def test_a_file_cut_anywhere_is_refused(at: int) -> None:
    whole = exported()
    with pytest.raises(ResultError):
        policy_file_from(whole[: at % len(whole)], "x")


@settings(max_examples=500)
@given(st.binary(min_size=1, max_size=64), st.integers(min_value=0))
def test_whatever_is_put_in_anywhere_is_refused(extra: bytes, at: int) -> None:
    whole = exported()
    at %= len(whole) + 1
    with pytest.raises(ResultError):
        policy_file_from(whole[:at] + extra + whole[at:], "x")


@settings(max_examples=500)
@given(st.integers(min_value=0), st.integers(1, 4096))
def test_whatever_is_taken_out_is_missed(at: int, length: int) -> None:
    whole = exported()
    at %= len(whole)
    with pytest.raises(ResultError):
        policy_file_from(whole[:at] + whole[at + length :], "x")


@settings(max_examples=500)
@given(st.binary(max_size=2000))
def test_no_bytes_are_more_than_refused(data: bytes) -> None:
    for begun in (data, b"PK\3\4" + data):
        with pytest.raises(ResultError):
            unpack(begun, "x")


def test_reasons_are_given() -> None:
    whole = exported()
    for data, reason in (
        (b"", "is no policy file: it does not begin with a part"),
        (whole[:10], "is cut short within its part 0"),
        (whole[:1000], "is cut short: its part 0 does not end within it"),
        (whole[:-1], "is damaged: it does not end as its parts do"),
        (whole[:2000] + b"~" + whole[2001:], "its part policy.json does not have the checksum"),
        (whole[:10] + b"\1" + whole[11:], "its parts are not described as"),
        (whole + bytes(MAX_BYTES), "has more than the 1000000 bytes"),
    ):
        with pytest.raises(ResultError, match=f"^x .*{reason}"):
            policy_file_from(data, "x")


def test_compressed_archives_are_refused_and_nothing_is_unpacked() -> None:
    """A gigabyte of zeros takes a megabyte; here 100 MB do."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.json", bytes(100_000_000))
    assert len(made.getvalue()) < MAX_BYTES
    with pytest.raises(ResultError):
        unpack(made.getvalue(), "x")


def test_two_parts_of_one_name_are_refused() -> None:
    one, two = pack({"a": b"1", "b": b"2"}), pack({"a": b"1", "a2": b"2"})
    twice = one.replace(b"b", b"a")
    assert len(twice) < len(two)
    with pytest.raises(ResultError, match="each with a name of its own"):
        unpack(twice, "x")


def test_what_is_no_plain_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.ncc"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    endless, folder, missing = Path("/dev/zero"), tmp_path, tmp_path / "missing.ncc"
    for path, reason in (
        (pipe, "not a plain file"),
        (endless, "not a plain file"),
        (folder, "not a plain file"),
        (missing, "there is no policy file"),
        (tmp_path / "missing" / "x.ncc", "there is no policy file"),
        (Path("a\0b"), "cannot read the policy file"),
    ):
        with pytest.raises(ResultError, match=reason):
            load_policy_file(path)


def test_no_more_of_a_large_file_is_read_than_shows_that_it_is(tmp_path: Path) -> None:
    large = tmp_path / "large.ncc"
    with large.open("wb") as file:
        file.write(exported())
        file.truncate(10**10)
    assert len(read_bytes(large)) == MAX_BYTES + 1
    with pytest.raises(ResultError, match="has more than the 1000000 bytes"):
        load_policy_file(large)


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    parts = unpack(exported(), "x")
    assert parts["SHA256SUMS"] == sums_of(parts)
    for name, data in parts.items():
        (tmp_path / name).write_bytes(data)
    subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
