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
    ("evaluate", "controller", (*controller_names(), *tuned_names()), "dctcp", "ns3, packetsim)"),
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
    groups = [line for line in done.stdout.splitlines() if line.endswith(":")]
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line not in groups)
    assert set(lines) == set(names)
    assert (list(lines) == list(names)) == (not groups)
    if groups:
        assert list(lines)[:3] == ["ncc", "local_tuned", "dctcp_tuned"]
    assert said in lines[name]
    assert all(len(text) > 10 for text in lines.values())


def test_a_list_is_folded_between_words_to_the_width_that_columns_says(tmp_path: Path) -> None:
    done = ncc("evaluate", "controller=list", cwd=tmp_path, COLUMNS="60")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert {line.split()[0] for line in lines if line[:2] == "  " and line[2] != " "} == {
        *controller_names(),
        *tuned_names(),
    }
