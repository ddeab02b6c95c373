# SPDX-License-Identifier: BSD-3-Clause
"""Key files: what they may say, who may have them, and that they are read again."""

import os
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.host.keys import FIRST_LINE, Key, Keys, Named, reader
from ncc.host.log import Log
from tests.host.hosts import FOR_ALL, KEY

HEX = ["0" * 32, "1" * 32, "2" * 32]


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    path.chmod(mode)
    return path


def signs(keys: Keys, sender: str, receiver: str) -> list[tuple[int, bytes]]:
    return [(key.number, key.sign(b"x")) for key in keys.between(sender, receiver)]


def of(digits: str, number: int = 1) -> tuple[int, bytes]:
    return number, Key(bytes.fromhex(digits)).sign(b"x")


@pytest.mark.parametrize("secret", [b"", b"fifteen bytes..", bytes(65)])
def test_keys_have_a_size(secret: bytes) -> None:
    with pytest.raises(ConfigError, match=rf"16 to 64 bytes, got {len(secret)}"):
        Key(secret)


def test_one_key_serves_all(tmp_path: Path) -> None:
    keys = Keys.read(written(tmp_path / "key", FOR_ALL))
    assert signs(keys, "10.0.0.1", "*") == signs(keys, "10.0.0.3", "10.0.0.2") == [(1, KEY.sign(b"x"))]


def test_a_line_that_names_an_agent_goes_before_one_that_names_any(tmp_path: Path) -> None:
    lines = [f"7 10.0.0.1 * {HEX[0]}", "# one for two", f"8  10.0.0.1 10.0.0.2 {HEX[1]}"]
    keys = Keys.read(written(tmp_path / "key", "\n".join([FIRST_LINE, *lines, "", f"9 * * {HEX[2]}\n"])))
    assert signs(keys, "10.0.0.1", "10.0.0.2") == [of(HEX[1], 8)]
    assert signs(keys, "10.0.0.1", "10.0.0.3") == signs(keys, "10.0.0.1", "*") == [of(HEX[0], 7)]
    assert signs(keys, "10.0.0.2", "10.0.0.1") == [of(HEX[2], 9)]


def test_a_pair_of_ipv6_has_its_key_however_its_addresses_are_written(tmp_path: Path) -> None:
    lines = [FIRST_LINE, f"8 FD00:0::1 fd00:0:0:0:0:0:0:2 {HEX[1]}", f"9 * * {HEX[2]}"]
    keys = Keys.read(written(tmp_path / "key", "\n".join([*lines, ""])))
    assert signs(keys, "fd00::1", "fd00::2") == [of(HEX[1], 8)]
    assert signs(keys, "fd00::2", "fd00::1") == [of(HEX[2], 9)]


def test_a_file_is_read_again_and_one_that_is_of_no_use_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "key", f"{FIRST_LINE}\n1 * * {HEX[0]}\n")
    keys = Keys.read(path)
    assert signs(keys, "10.0.0.1", "10.0.0.2") == [of(HEX[0])]
    written(path, f"{FIRST_LINE}\n2 * * {HEX[1]}\n1 * * {HEX[0]}\n")
    keys.read_again()
    both = [of(HEX[1], 2), of(HEX[0], 1)]
    assert signs(keys, "10.0.0.1", "10.0.0.2") == both
    for text in ("", FIRST_LINE, f"{FIRST_LINE}\n2 10.0.0.7 * {HEX[1]}\n"):
        written(path, text)
        with pytest.raises(ConfigError):
            keys.read_again()
        assert signs(keys, "10.0.0.1", "10.0.0.2") == signs(keys, "10.0.0.3", "10.0.0.4") == both


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "5" * 32 + "\n",
            r"does not begin with the line `ncc-keys 2`, .*: make a new one by `\(umask 077; .* every host",
        ),
        ("ncc-keys 3\n", "does not begin with the line"),
        ("", "does not begin with the line"),
        ("{}\n\n# nothing\n", "cannot be used: it has no keys"),
        ("{}\n* * 5555\n", "line 2 is not `ID SENDER RECEIVER HEX`"),
        (f"{{}}\n0 * * {HEX[0]}\n", "line 2 is not `ID"),
        (f"{{}}\n65536 * * {HEX[0]}\n", "line 2 is not `ID"),
        (f"{{}}\n1 * * {HEX[0]}5\n", "line 2 is not `ID"),
        (f"{{}}\n1 * 10.0.0.256 {HEX[0]}\n", "line 2 has no valid address of an agent"),
        (f"{{}}\n1 * fe80::1 {HEX[0]}\n", "line 2 has no valid address of an agent"),
        (f"{{}}\n1 {HEX[0]} * {HEX[0]}\n", "line 2 has no valid address of an agent"),
        ("{}\n1 * * 5555\n", "line 2: a key must have 16 to 64 bytes, got 2"),
        (f"{{}}\n1 * * {HEX[0]}\n1 * * {HEX[1]}\n", "line 3 is one too many"),
        ("{}\n" + "".join(f"{i} * * {HEX[i - 1]}\n" for i in (1, 2, 3)), "line 4 is one too many"),
        ("{}\n" + "#" * (1 << 20), "has more than 1048576 bytes"),
    ],
)
def test_files_that_are_no_keys(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "key", text.replace("{}", FIRST_LINE))
    with pytest.raises(ConfigError, match=said) as refused:
        Keys.read(path)
    assert "55" not in str(refused.value).replace(str(path), ""), "no secret is shown"


@pytest.mark.attack("n49")
def test_half_a_line_is_no_key(tmp_path: Path) -> None:
    """Somebody writes the file in place while the agent reads it again."""
    path = written(tmp_path / "key", f"{FIRST_LINE}\n1 * * {HEX[0]}\n")
    keys = Keys.read(path)
    line = f"2 * * {HEX[1]}{HEX[1]}\n"
    for length in range(1, len(line)):
        written(path, f"{FIRST_LINE}\n{line[:length]}")
        with pytest.raises(ConfigError, match=r"the last line of the key file .* is not complete: end it with a"):
            keys.read_again()
        assert signs(keys, "10.0.0.1", "10.0.0.2") == [of(HEX[0])]


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_a_key_that_others_may_use_is_refused(mode: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"by others than its owner \(mode {mode:04o}\): run chmod 600"):
        Keys.read(written(tmp_path / "key", FOR_ALL, mode))


def test_a_key_is_in_a_plain_file_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; make one by"):
        Keys.read(tmp_path / "none")
    with pytest.raises(ConfigError, match="is not a plain file"):
        Keys.read(tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(ConfigError, match="is not a plain file"):  # and does not wait for a writer
        Keys.read(fifo)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "key", FOR_ALL)
    os.chown(path, 12345, -1)
    with pytest.raises(ConfigError, match="belongs to user 12345, who could change it"):
        Keys.read(path)


def test_who_has_no_key_is_named() -> None:
    named: Named = {("10.0.0.1", "10.0.0.2"): [KEY]}
    with pytest.raises(
        ConfigError, match=r"no key for what 10.0.0.1 sends 10.0.0.3: add a line for them, or for \* \*"
    ):
        Keys(named).between("10.0.0.1", "10.0.0.3")


@pytest.mark.attack("n51a")
def test_without_a_key_file_the_agent_says_so_and_goes_on() -> None:
    lines: list[bytes] = []
    reader(None, Log(lines.append))()
    assert b"there is no key file to read again" in lines[0]
