# SPDX-License-Identifier: BSD-3-Clause
"""Ray that is joined, that does not start, and that loses a node."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (the extra rllib)")

import ray

from ncc.agents import progress
from ncc.agents.rllib import cluster
from ncc.agents.rllib.cluster import connected
from ncc.agents.rllib.config import RllibConfig
from ncc.core.errors import ConfigError
from ncc.harness.learner import Progress
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity
from tests.house.files import ROOT
from tests.mains.commands import ncc
from tests.support.processes import eventually
from tests.support.ray import NoRay

pytestmark = pytest.mark.rllib
EPOCHS = 1000


@contextmanager
def second_node() -> Iterator[Callable[[], None]]:
    """A node more, which the function kills. Both nodes have one processor free, so that each takes an env runner."""
    from ray.cluster_utils import Cluster

    assert eventually(lambda: len(alive()) == 1, 120)
    eventually(lambda: free_cpus() == alive()[0]["Resources"]["CPU"], 60)  # what ran before may hold some for good
    taken = ray.util.placement_group([{"CPU": free_cpus() - 1}])
    assert taken.wait(120)
    made = Cluster(shutdown_at_exit=False)
    made.head_node = ray._private.worker._global_node
    node = made.add_node(wait=False, num_cpus=1, object_store_memory=80 * 2**20)
    try:
        assert eventually(lambda: len(alive()) == 2, 120)
        yield lambda: made.remove_node(node, allow_graceful=False)
        assert eventually(lambda: len(alive()) == 1, 120)
    finally:
        node.kill_all_processes(check_alive=False, allow_graceful=False)
        ray.util.remove_placement_group(taken)


def alive() -> list[Any]:
    return [node for node in ray.nodes() if node["Alive"]]


def free_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0.0))


def test_it_goes_on_when_a_node_dies(ray_here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY_S", 0.0)
    killed: list[int] = []
    config = RllibConfig(env_runners=2, racks=4, rollout=25, epochs=EPOCHS, hidden=(8,), address=ray_here)
    with second_node() as kill:

        def after_one_update(reached: Progress) -> None:
            if reached.epochs and not killed:
                killed.append(reached.epochs)
                kill()

        reports = fit(config, Identity((50,) * 4), tmp_path, on_progress=after_one_update)
    assert killed == [200], "in the middle"
    epochs = [report.epochs for report in reports]
    assert epochs == sorted(epochs)
    assert EPOCHS <= epochs[-1] <= EPOCHS + 200, "epochs are counted once"


def test_no_cluster_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ray", NoRay())
    with (
        pytest.raises(ConfigError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'.*refused"),
        connected("127.0.0.1:1", cpus=1),
    ):
        pass


SESSION = """
import signal, sys
from ncc.agents.rllib import cluster
cluster._temporary = lambda: sys.argv[1]
cluster.REMOVER = cluster.REMOVER.replace("sleep 5", "sleep 0.1")
with cluster._session():
    signal.pause()
"""


def test_a_session_is_removed_when_its_process_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path)]) as running:
        assert eventually(lambda: any(tmp_path.iterdir()), 120)
        running.kill()
    assert eventually(lambda: not any(tmp_path.iterdir()), 120)


def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[str] = []

    def late(**settings: Any) -> None:
        tried.append(settings["address"])
        raise RuntimeError("the node is late\nand more")

    monkeypatch.setattr(cluster, "ray", NoRay(late))
    monkeypatch.setattr(cluster, "_temporary", lambda: str(tmp_path))
    monkeypatch.setattr(cluster, "PAUSE_S", 0.0)
    with (
        pytest.raises(ConfigError, match=r"Ray did not start in 3 attempts \(the node is late\); wait"),
        connected(None, cpus=1),
    ):
        pass
    assert tried == ["local"] * 3
    assert not list(tmp_path.iterdir())


def test_a_league_survives_the_death_of_a_node(ray_here: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is killed while it runs a contender, which then runs on the other node."""
    killed: list[bool] = []
    wait = ray.wait
    with second_node() as kill:
        (other,) = (node["NodeID"] for node in alive() if node["NodeID"] != ray.get_runtime_context().get_node_id())

        def busy() -> bool:
            return not ray._private.state.available_resources_per_node()[other].get("CPU")

        def after_both_have_begun(running: list[Any]) -> Any:
            if not killed:
                assert eventually(busy, 120)
                killed.append(True)
                kill()
            return wait(running)

        monkeypatch.setattr(ray, "wait", after_both_have_begun)
        settings = ("experiment=small_league", "executor=ray", f"address={ray_here}", "workers=2", "out=league")
        done = ncc("league", "--config-dir", str(ROOT / "tests/study/leagues"), *settings, cwd=tmp_path)
    assert killed
    assert "6 of 6 runs" in done.stderr + done.stdout
    assert (tmp_path / "league/league.html").is_file(), done.stderr
