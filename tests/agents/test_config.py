# SPDX-License-Identifier: BSD-3-Clause
"""Settings: ranges, defaults, JSON, and what happens without PyTorch."""

from typing import Any

import pytest

from ncc.agents.a3c.config import A3cConfig
from ncc.core.errors import ConfigError
from ncc.core.value import from_dict


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "turbo"),
        ("workers", 0),
        ("gamma", 1.0),
        ("gamma", float("nan")),
        ("learning_rate", float("inf")),
        ("hidden", ()),
        ("hidden", (64, 0)),
    ],
)
def test_absurd_settings_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        A3cConfig(**{field: value})


def test_a_typo_lists_what_exists() -> None:
    with pytest.raises(ConfigError, match="learning_rate_final"):
        from_dict(A3cConfig, {"learning_rat": 1e-3}, "agent")
