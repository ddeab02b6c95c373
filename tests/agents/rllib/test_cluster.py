# SPDX-License-Identifier: BSD-3-Clause
"""Training in a Ray cluster of two nodes on this machine, one of which dies in the middle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="rllib: ray is not installed (ncc[rllib])")

import ray

from ncc.agents.rllib.cluster import connected
from ncc.agents.rllib.config import RllibConfig
from ncc.core.errors import ConfigError
from ncc.harness.learner import Progress
from tests.agents.fitting import fit
from tests.agents.toy_envs import Identity

pytestmark = pytest.mark.rllib
EPOCHS = 4000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and one node more, a processor each, so that each takes one of two env runners."""
    from ray.cluster_utils import Cluster

    assert not ray.is_initialized(), "a test before left its Ray running"
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.spare = made.add_node(num_cpus=1)
    try:
        yield made
    finally:
        made.shutdown()


def test_it_goes_on_when_a_node_dies(cluster: Any, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.epochs and not killed:
            killed.append(progress.epochs)
            cluster.remove_node(cluster.spare, allow_graceful=False)

    config = RllibConfig(env_runners=2, racks=4, rollout=25, epochs=EPOCHS, hidden=(8,), address=cluster.address)
    reports = fit(config, Identity((50,) * 4), tmp_path, on_progress=kill)
    assert killed[0] < EPOCHS, "the node outlived the training"
    epochs = [report.epochs for report in reports]
    assert epochs == sorted(epochs)
    assert EPOCHS <= epochs[-1] <= EPOCHS + 200, "epochs are counted once"


def test_no_cluster_there_is_one_sentence() -> None:
    with (
        pytest.raises(ConfigError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'.*refused"),
        connected("127.0.0.1:1", None, cpus=1),
    ):
        pass
