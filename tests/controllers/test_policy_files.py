# SPDX-License-Identifier: BSD-3-Clause
"""Policy files that `controller=` names and that are none: a setting that cannot be used, in one sentence."""

from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import rack

BAD = [
    ("garbage.npz", "is damaged or not an ncc-policy file"),
    ("garbage.ncc", "is no policy file"),
    ("nowhere.npz", "there is no ncc-policy at"),
    ("hosts:garbage.ncc", "is no policy file"),
    ("hosts:nowhere.ncc", "there is no policy file"),
    ("hosts:garbage.npz", "hosts: takes a .ncc file, which ncc export makes"),
]


@pytest.mark.parametrize(("name", "said"), BAD, ids=[name for name, _ in BAD])
def test_a_bad_policy_file_is_a_bad_setting(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for garbage in ("garbage.npz", "garbage.ncc"):
        Path(garbage).write_text("garbage")
    factory = LimiterFactory(None)
    with pytest.raises(ConfigError, match=said) as refused:
        factory(factory.resolved(load_controller(name)), rack())
    assert "\n" not in str(refused.value)
