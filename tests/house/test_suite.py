# SPDX-License-Identifier: BSD-3-Clause
"""Tests do not depend on which others run."""

from typing import Literal

import pytest
from hypothesis.internal.conjecture.providers import HypothesisProvider


@pytest.mark.parametrize("kind", ["integer", "float", "bytes", "string"])
def test_random_inputs_are_the_same_whatever_is_imported(
    kind: Literal["integer", "float", "bytes", "string"],
) -> None:
    """Hypothesis would draw constants of our modules that are imported."""
    assert not HypothesisProvider(None)._local_constants.set_for_type(kind)
