# SPDX-License-Identifier: BSD-3-Clause
"""Lists that mains print."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from ncc.run.compose import experiment_names
from ncc.run.config_files import config_paths
from ncc.run.controllers import controller_names, tuned_names
from tests.mains.commands import ncc

FEW = ("dctcp_queue", "ncc_linux", "tuning_rack")
"""The last takes its paper from a schema. Composing all experiments takes long."""
LISTED = [
    *((main, "scenario", config_paths("scenario"), "rack", "16 hosts of 1 Gbit/s") for main in ("evaluate", "serve")),
    ("evaluate", "controller", (*controller_names(), *tuned_names()), "dctcp", "ns3, packetsim"),
    ("evaluate", "experiment", FEW, "dctcp_queue", "marking threshold"),
    ("train", "recipe", config_paths("recipe"), "ncc", ""),
]


@pytest.mark.parametrize(("main", "what", "names", "name", "said"), LISTED, ids=[f"{m} {w}" for m, w, *_ in LISTED])
def test_a_group_is_listed_with_a_sentence_of_each(
    main: str, what: str, names: Iterable[str], *, name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if names is FEW:
        assert set(FEW) < set(experiment_names())
        monkeypatch.setattr("ncc.run.compose.experiment_names", lambda: FEW)
    done = ncc(main, f"{what}=list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert list(lines) == list(names)
    assert said in lines[name]
    assert all(len(text) > 10 for text in lines.values())
