# SPDX-License-Identifier: BSD-3-Clause
"""Training in a Ray cluster of two nodes on this machine, one of which dies in the middle."""

import importlib.util
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncc.harness.manifest import is_sealed
from ncc.learning import read_learning
from tests.mains.commands import TINY, command, ncc

pytestmark = [
    pytest.mark.rllib,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="rllib: ray is not installed (ncc[rllib])"),
]
EPOCHS = 15_000
PATIENCE_S = 140.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and one node more, a processor each, so that each takes one of two env runners."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.spare = made.add_node(num_cpus=1)
    try:
        yield made
    finally:
        made.shutdown()


def test_it_goes_on_when_a_node_dies(cluster: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = (
        *("agent=rllib_ppo", "agent.env_runners=2", "agent.racks=4", "agent.rollout=150", f"agent.epochs={EPOCHS}"),
        *(f"agent.address={cluster.address}", "evaluation.datapaths=[packetsim]", *TINY, f"out={run}"),
    )
    training = subprocess.Popen(
        command("train", *arguments), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        _until(lambda: any(row["epochs"] > 0 for row in read_learning(run)), training)
        cluster.remove_node(cluster.spare, allow_graceful=False)
        before = read_learning(run)[-1]["epochs"]
        assert before < EPOCHS, "the node outlived the training"
        said, _ = training.communicate(timeout=PATIENCE_S)
    finally:
        training.kill()
        training.wait()
    assert training.returncode == 0, said
    assert is_sealed(run)
    rows = read_learning(run)
    assert EPOCHS <= rows[-1]["epochs"] < EPOCHS + 2000, (
        "epochs are counted once, and nothing but what was in flight is lost"
    )
    assert [row["epochs"] for row in rows] == sorted(row["epochs"] for row in rows)


def test_no_cluster_there_is_one_sentence(tmp_path: Path) -> None:
    arguments = ("agent=rllib_ppo", "agent.address=127.0.0.1:1", "agent.epochs=2000", *TINY, "out=run")
    done = ncc("train", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "no Ray cluster answers at '127.0.0.1:1'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def _until(there: Any, training: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert training.poll() is None, training.stdout.read() if training.stdout else ""
        assert time.monotonic() < until, "the training did not begin"
        time.sleep(0.05)
