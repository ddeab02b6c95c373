# SPDX-License-Identifier: BSD-3-Clause
"""Learners compared by one script: what it trains, keeps and computes."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncc.core.errors import InvalidRunError
from ncc.harness.pool import Processes
from ncc.results.training import train
from ncc.run.plan import training_plan
from studies import learners
from studies.learners import COMMON, LEARNERS, main, row
from tests.house.files import ROOT
from tests.support.extras import needs_extra
from tests.support.here import Here

SCRIPT = """
import sys
from pathlib import Path
from ncc.agents.policy import load_policy, save_policy
options = dict(option.split("=") for option in sys.argv[1:])
found, meta = load_policy(Path("runs/learners/a3c_s1/policy_untrained.ncc"))
assert (options["--seed"], options["--periods"]) == ("1", "6000")
meta = {key: meta[key] for key in ("observation", "action", "stack")}
save_policy(Path(options["--out"]), found.layers, meta)
"""
WORDS = ["--seeds", "1", "--epochs", "6000"]


def here(command: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
    """Train in this process, which has loaded everything already."""
    if command[1] != "-m":
        return subprocess.run(command, check=True)
    *overrides, out = command[3:]
    train(training_plan(overrides), Path(out.removeprefix("out=")), resume=False)
    return subprocess.CompletedProcess(command, 0)


def test_it_trains_judges_and_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(SCRIPT)
    monkeypatch.setattr(Processes, "run", Here().run)
    monkeypatch.setattr("ncc.results.evaluation._draw", lambda *_: None)  # a training's own pictures
    monkeypatch.setattr(learners, "subprocess", SimpleNamespace(run=here))
    monkeypatch.setattr(learners, "LEARNERS", {"a3c": ("agent.mode=sync",), "own": ("own.py", ".ncc")})
    for name, value in (("NETWORKS", 3), ("PERIODS", 200), ("OVER", ("dctcp",))):
        monkeypatch.setattr(learners, name, value)
    folder = Path("runs/learners/a3c_s1")
    folder.mkdir(parents=True)
    (folder / "left").touch()  # as if it had been interrupted
    assert main(WORDS) == 0
    printed = capsys.readouterr().out
    assert not (folder / "left").exists(), "begun again and finished"
    found = json.loads(Path("runs/learners/results.json").read_text())
    (trained,), (own,) = found["learners"]["a3c"], found["learners"]["own"]
    assert own["over_formula"] == [1.0, 1.0], "it wrote the untrained formula"
    assert all(0.5 < ratio < 2 and ratio != 1 for ratio in trained["over_formula"])
    assert trained["cpu_s"] > 0
    assert f"| own | 1.000 | 1.000 | {own['timeouts'][0]:.3f}" in printed
    assert set(found["beside"]) == {"dctcp"}

    kept = (folder / "policy.ncc").stat().st_mtime_ns
    Path("own.py").write_text("raise SystemExit(1)")
    assert main(WORDS) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == printed.splitlines()[-4:]
    assert (folder / "policy.ncc").stat().st_mtime_ns == kept
    monkeypatch.undo()
    with pytest.raises(InvalidRunError, match=r"no\.py .* ended with status 2; its own message is above"):
        learners._run("no.py", "--seed=1")


def test_a_row_has_means_over_trainings_and_the_range_of_costs() -> None:
    trainings = [{"over_formula": [ratio, 1.0], "timeouts": [0.5, 9.0], "cpu_s": ratio * 10} for ratio in (0.5, 0.7)]
    name, one, other, timeouts, cost = row("x", trainings)
    assert (name, other, timeouts, cost) == ("x", "1.000", "0.500", "5 to 7")
    assert one.startswith("0.600 [0.5")


@needs_extra("rllib")
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_can_be_trained(name: str) -> None:
    first, *rest = LEARNERS[name]
    if first.endswith(".py"):
        assert (ROOT / first).is_file()
    else:
        assert training_plan([*COMMON, first, *rest]).learner
