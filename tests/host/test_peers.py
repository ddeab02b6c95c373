# SPDX-License-Identifier: BSD-3-Clause
"""Peers: texts parsed into addresses and ids, and invalid texts."""

import hashlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncc.core.errors import ConfigError
from ncc.envs.linux.device import interface_index
from ncc.host.peers import PORT, parse_agent, parse_one, parse_peers


def test_forms() -> None:
    assert [str(peer) for peer in parse_agent(" 10.0.0.2 ")] == [f"10.0.0.2:{PORT}"]
    assert [str(peer) for peer in parse_agent("10.0.0.2:7*3")] == ["10.0.0.2:7", "10.0.0.2:7#1", "10.0.0.2:7#2"]
    assert [str(peer) for peer in parse_agent("[FD00:0::2]*2")] == [f"[fd00::2]:{PORT}", f"[fd00::2]:{PORT}#1"]


def test_ids_are_those_of_addresses() -> None:
    assert parse_agent("10.0.0.2:7*2")[1].id == (1 << 48) + (10 << 40) + (2 << 16) + 7
    assert parse_agent("[::1]:7")[0].id == (int(hashlib.sha256(bytes(15) + b"\1").hexdigest()[:8], 16) << 16) + 7
    everybody = {peer.id for text in ("10.0.0.2*9", "10.0.0.2:7", "[fd00::2]*2") for peer in parse_agent(text)}
    assert len(everybody) == 12
    assert max(everybody) < 2**64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be ADDRESS, ADDRESS:PORT or"),
        ("localhost", "with a numerical address, as in 10.0.0.2:947 or"),
        ("fd00::2", "with a numerical address"),
        ("fd00::2:947", "with a numerical address"),
        ("[fd00::2", "with a numerical address"),
        ("[fd00::g]", "'fd00::g' is no valid address"),
        ("[]", "with a numerical address"),
        ("10.0.0", "'10.0.0' is no valid address"),
        ("10.0.0.256", "'10.0.0.256' is no valid address"),
        ("[fe80::1]", "'fe80::1' is an address of one link only"),
        ("[fe80::1%eth0]", "name one without a scope"),
        ("[fd00::1%eth0]", "name one without a scope"),
        ("[::ffff:10.0.0.2]", "is an address of IPv4: write 10.0.0.2"),
        ("224.0.0.1", "'224.0.0.1' is not the address of one host"),
        ("[ff02::1]", "'ff02::1' is not the address of one host"),
        ("[::]", "'::' is not the address of one host"),
        ("10.0.0.2:0", "ports are 1 to 65535"),
        ("10.0.0.2:65536", "has port 65536"),
        ("10.0.0.2*0", "serves 1 to 256"),
        ("10.0.0.2*1025", "has 1025 hosts"),
        ("10.0.0.2;10.0.0.3", "must be ADDRESS"),
        ("10.0.0.٢", "must be ADDRESS"),
    ],
)
def test_what_is_no_peer(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        parse_agent(text)
    assert repr(text) in str(refused.value)


@given(st.text(max_size=30))
def test_any_text_is_a_peer_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert parse_agent(text)


def test_a_neighbourhood_has_each_host_once() -> None:
    own = parse_agent("10.0.0.1*2")
    assert [str(peer) for peer in parse_peers("10.0.0.3, 10.0.0.2*2,", own)] == [
        f"10.0.0.3:{PORT}", f"10.0.0.2:{PORT}", f"10.0.0.2:{PORT}#1",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"the peer 10.0.0.1:947 is this agent itself"):
        parse_peers("10.0.0.2,10.0.0.1", own)
    with pytest.raises(ConfigError, match=r"the peer 10.0.0.2:947 is named twice"):
        parse_peers("10.0.0.2,10.0.0.2:947", own)
    with pytest.raises(ConfigError, match=r"\[fd00::4691\]:947 has the same id as \[fd00::2cc7\]:947: give one"):
        parse_peers("[fd00::2cc7],[fd00::4691]", parse_agent("[fd00::1]"))
    with pytest.raises(ConfigError, match="at most 256 hosts, got 258"):
        parse_peers("10.0.0.2*256", own)
    with pytest.raises(ConfigError, match=r"the uplink '10.0.0.2\*2' must be one"):
        parse_one("10.0.0.2*2", "uplink")


def test_interfaces() -> None:
    assert interface_index("lo") >= 1
    for none in ("no-such-one", "x" * 300, "a\0b"):
        with pytest.raises(ConfigError, match=r"there is no network interface .*; this machine has .*lo"):
            interface_index(none)
