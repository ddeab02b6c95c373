# SPDX-License-Identifier: BSD-3-Clause
"""Errors say which name was meant, and keep their meaning on the way from a worker to its parent."""

import pickle

import pytest

from ncc.core.errors import UnknownNameError, hint

CONTROLLERS = ("cubic", "dctcp", "linux_dctcp", "ncc", "ncc_cold", "newreno", "ns3_cubic", "vegas")


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("dtcp", CONTROLLERS, "dctcp"),
        ("NCC", CONTROLLERS, "ncc"),
        ("Cubic", CONTROLLERS, "cubic"),
        ("reno", CONTROLLERS, "newreno"),
        ("cold", CONTROLLERS, "ncc_cold"),
        ("tcp_vegas", CONTROLLERS, "vegas"),
        ("ppo", ("a2c", "a3c", "rllib_appo", "rllib_ppo"), "rllib_ppo"),
        ("incast_32", ("incast", "rack"), "incast"),
    ],
)
def test_a_name_that_is_near_is_asked_for(given: str, known: tuple[str, ...], meant: str) -> None:
    assert hint(given, known) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize("given", ["", "x", "cc", "quantum"])
def test_nothing_is_asked_where_nothing_is_near(given: str) -> None:
    assert hint(given, ("dctcp", "newreno", "vegas")) == ""


def test_an_unknown_name_survives_pickling() -> None:
    error = UnknownNameError("controller", "dtcp", ["newreno", "dctcp"])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is UnknownNameError
    assert str(copy) == str(error)
    assert "Did you mean 'dctcp'?" in str(copy)
