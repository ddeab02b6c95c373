# SPDX-License-Identifier: BSD-3-Clause
"""A Python class of one's own as a controller: found, run in processes of its own, and refused in one sentence."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncc.core.errors import ConfigError
from ncc.envs.packetsim.datapath import PacketsimDatapath
from ncc.harness.controller import ClassLimit
from ncc.harness.datapath import HostStack
from ncc.harness.pool import evaluate, jobs_for
from ncc.run.controllers import load_controller
from ncc.run.limiters import LimiterFactory
from ncc.run.plan import EvaluationSpec
from tests.support.experiments import small_rack
from tests.support.tables import table

REFUSED = table(__file__, "own_class.yaml")

CLASS = '''
import numpy as np
from ncc.harness.datapath import HostStack
from ncc.core.receivers import Decision, Grants


class Tenth:
    """A tenth of a gigabit for everybody.

    Not in the summary.
    """

    def reset(self, scenario, seed):
        self.n = scenario.n_agents

    def decide(self, measurement):
        return [1e8] * self.n


class OverCubic(Tenth):
    summary = "over CUBIC"
    stack = HostStack(transport="cubic", order="fifo")
    files = ("weights.txt",)


class NoDecision:
    def reset(self, scenario, seed): ...


class Greedy(Tenth):
    def __init__(self, share): ...


class OddStack(Tenth):
    stack = 3


class Fails(Tenth):
    def decide(self, measurement):
        return {}["rate"]


class WrongShape(Tenth):
    def decide(self, measurement):
        return [1e8]


class NotMade(Tenth):
    def __init__(self):
        raise OSError("no weights")


class Words(Tenth):
    def decide(self, measurement):
        return "fast"


class Leaves(Tenth):
    def decide(self, measurement):
        raise SystemExit(3)


class Ungranted(Tenth):
    def decide(self, measurement):
        return Decision([1e8] * self.n, {})


class Receivers(Tenth):
    """Receivers that grant every sender a hundredth of a gigabit."""

    def decide(self, measurement):
        edges = measurement.edges
        n = len(edges)
        grants = Grants(src=edges.src, dst=edges.dst, start_s=[0.0] * n, rate_bps=[1e7] * n, window_pkts=[0] * n)
        return Decision([np.inf] * self.n, grants)


def function(): ...
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "toy_module.py").write_text(CLASS)
    (tmp_path / "toy_raises.py").write_text('raise ZeroDivisionError("by\\nnothing")\n')
    (tmp_path / "toy_leaves.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "toy_lacks.py").write_text("import no_such_package\n")
    (tmp_path / "weights.txt").write_text("1")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("toy_")]:
        del sys.modules[name]


def test_what_a_class_says_of_itself() -> None:
    plain, over = load_controller("toy_module:Tenth"), load_controller("toy_module:OverCubic")
    assert (plain.name, plain.summary) == ("Tenth", "A tenth of a gigabit for everybody.")
    assert plain.stack == HostStack()
    assert (over.name, over.summary, over.stack.transport) == ("OverCubic", "over CUBIC", "cubic")
    assert plain.limit == ClassLimit(target="toy_module:Tenth")


def test_it_decides_in_worker_processes(tmp_path: Path) -> None:
    factory, scenario = LimiterFactory(None), small_rack()
    controllers = [load_controller(name) for name in ("dctcp", "toy_module:Tenth")]
    done = evaluate(jobs_for(scenario, controllers, [1]), tmp_path / "out", PacketsimDatapath, factory)
    free, held = (done.summaries()[name][1] for name in ("dctcp", "Tenth"))
    assert held["fct_mean_s"] > 2 * free["fct_mean_s"]


def test_its_grants_reach_the_senders(tmp_path: Path) -> None:
    factory, scenario = LimiterFactory(None), small_rack(neighbourhoods="receivers")
    controllers = [load_controller(name) for name in ("dctcp", "toy_module:Receivers")]
    done = evaluate(jobs_for(scenario, controllers, [1]), tmp_path / "out", PacketsimDatapath, factory)
    free, granted = (done.summaries()[name][1] for name in ("dctcp", "Receivers"))
    assert granted["fct_mean_s"] > 2 * free["fct_mean_s"]


def test_a_changed_class_makes_other_runs(here: Path) -> None:
    factory, over = LimiterFactory(None), load_controller("toy_module:OverCubic")
    before = factory.inputs(over)
    (here / "weights.txt").write_text("2")
    with_weights = factory.inputs(over)
    (here / "toy_module.py").write_text(CLASS + "# changed\n")
    assert len({str(found) for found in (before, with_weights, factory.inputs(over))}) == 3
    (here / "weights.txt").unlink()
    with pytest.raises(ConfigError, match=r"toy_module:OverCubic\.files names weights\.txt, which is no file"):
        factory.inputs(over)


def test_two_of_one_name_are_refused(here: Path) -> None:
    (here / "toy_other.py").write_text(CLASS)
    names = ("toy_module:Tenth", "toy_other:Tenth")
    spec = EvaluationSpec(controllers=names, datapaths=("packetsim",), seeds=1, duration_s=1.0)
    with pytest.raises(ConfigError, match="would call toy_module:Tenth and toy_other:Tenth all 'Tenth'"):
        spec.load()


@pytest.mark.parametrize(("name", "said"), REFUSED["names"])
def test_what_is_no_controller_is_refused(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        load_controller(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "said"), REFUSED["faults"])
def test_a_class_that_fails_is_said_with_its_line(name: str, said: str, tmp_path: Path) -> None:
    scenario, controller = small_rack(), load_controller(f"toy_module:{name}")
    with pytest.raises(ConfigError, match=said) as refused:
        evaluate(jobs_for(scenario, [controller], [1]), tmp_path / "out" / "a", PacketsimDatapath, LimiterFactory(None))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
