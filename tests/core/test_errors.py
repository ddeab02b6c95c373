# SPDX-License-Identifier: BSD-3-Clause
"""Errors say which name was meant, and keep their meaning on the way from a worker to its parent."""

import pickle

import pytest

from ncc.core.errors import DatapathError, NccError, UnknownNameError, hint

CONTROLLERS = ("cubic", "dctcp", "linux_dctcp", "ncc", "ncc_order", "newreno", "ns3_cubic", "vegas")


@pytest.mark.parametrize(
    ("given", "known", "meant"),
    [
        ("dtcp", CONTROLLERS, "dctcp"),
        ("NCC", CONTROLLERS, "ncc"),
        ("Cubic", CONTROLLERS, "cubic"),
        ("reno", CONTROLLERS, "newreno"),
        ("order", CONTROLLERS, "ncc_order"),
        ("tcp_vegas", CONTROLLERS, "vegas"),
        ("ppo", ("a2c", "a3c", "a3c_pairs", "rllib_ppo"), "rllib_ppo"),
        ("incast_32", ("incast", "rack"), "incast"),
    ],
)
def test_a_name_that_is_near_is_asked_for(given: str, known: tuple[str, ...], meant: str) -> None:
    assert hint(given, known) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize("given", ["", "x", "cc", "quantum"])
def test_nothing_is_asked_where_nothing_is_near(given: str) -> None:
    assert hint(given, ("dctcp", "newreno", "vegas")) == ""


class PickyError(NccError):
    """Made of something else than its text."""

    def __init__(self, *, port: int) -> None:
        super().__init__(f"port {port} is closed")
        self.port = port


@pytest.mark.parametrize(
    "error", [DatapathError("it broke"), UnknownNameError("port", "b", ["a"]), PickyError(port=3)], ids=repr
)
def test_an_error_travels_with_its_class_its_text_and_its_attributes(error: NccError) -> None:
    copy = pickle.loads(pickle.dumps(error)).within("rack 2")
    assert type(copy) is type(error)
    assert str(copy) == f"rack 2: {error}"
    assert vars(copy) == vars(error)
    assert str(error.within("")) == str(error)
