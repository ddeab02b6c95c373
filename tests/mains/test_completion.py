# SPDX-License-Identifier: BSD-3-Clause
"""Completion of command lines: verbs by ncc, and what a verb takes by Hydra."""

from pathlib import Path

import pytest

from tests.mains.commands import ncc, verb


@pytest.mark.parametrize(
    ("line", "some", "none"),
    [
        ("ncc tr", {"train"}, {"evaluate"}),
        ("ncc train sc", {"scenario", "scenario."}, {"seed="}),
        ("ncc evaluate experiment=dctcp_q", {"experiment=dctcp_queue"}, {"experiment=ncc_worth"}),
        ("ncc train scenario=incast scenario.topology.", {"scenario.topology.senders="}, {"scenario.topology.hosts="}),
        ("ncc host ", set(), {"run"}),
    ],
)
def test_words_that_may_follow(line: str, some: set[str], none: set[str], tmp_path: Path) -> None:
    done = ncc("__main__", "-sc", "query=bash", cwd=tmp_path, COMP_LINE=line, COMP_POINT=str(len(line)))
    assert (done.returncode, done.stderr) == (0, "")
    found = set(done.stdout.split())
    assert some <= found
    assert not none & found


def test_hydra_has_the_script_for_bash() -> None:
    assert "hydra_bash_completion()" in verb("-sc", "install=bash").stdout
