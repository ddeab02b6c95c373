# SPDX-License-Identifier: BSD-3-Clause
"""Errors keep their meaning on the way from a worker to its parent."""

import pickle

from ncc.core.errors import UnknownNameError


def test_an_unknown_name_survives_pickling() -> None:
    error = UnknownNameError("controller", "dtcp", ["newreno", "dctcp"])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is UnknownNameError
    assert str(copy) == str(error)
    assert "Did you mean 'dctcp'?" in str(copy)
