# SPDX-License-Identifier: BSD-3-Clause
"""Policy files that `controller=` names and that are none: a setting that cannot be used, in one sentence."""

from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from tests.envs.cases import rack

BAD = [
    ("garbage.ncc", "is no policy file"),
    ("nowhere.ncc", "there is no policy file"),
    ("hosts:garbage.ncc", "is no policy file"),
    ("hosts:nowhere.ncc", "there is no policy file"),
    ("hosts:garbage.npz", "hosts: takes a policy file, which ends in .ncc"),
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


@pytest.mark.parametrize(
    ("folder", "files", "said"),
    [
        ("dctcp", ["config.json", "policy.ncc"], "would call the training 'dctcp', and that is a controller of ncc"),
        ("vegas_tuned", ["config.json", "policy.ncc"], "would call the training 'vegas_tuned'"),
        ("mine", ["config.json"], "is a training that has not ended: ncc train resume="),
    ],
)
def test_a_training_that_cannot_stand_in_a_table_is_refused(
    folder: str, files: list[str], said: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).touch()
    with pytest.raises(ConfigError, match=said):
        load_controller(str(tmp_path / folder))
